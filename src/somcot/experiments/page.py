"""One page that shows all figures with a line on what to see in each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from somcot.experiments.record import Check, Experiment, Record

__all__ = ["index_page"]

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's figures</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
figure { margin: 0 0 1rem; }
img { max-width: 100%; max-height: 36rem; }
table { border-collapse: collapse; font-size: 0.85rem; }
td, th { padding: 0.15rem 0.8rem 0.15rem 0; text-align: left; font-variant-numeric: tabular-nums; }
.miss { color: #b03000; font-weight: 600; }
section { margin-bottom: 3rem; }
</style>
</head>
<body>
<h1>Distances for Markov chains from sample streams: the figures</h1>
"""


def index_page(results: Sequence[tuple[Experiment, Record]]) -> str:
    """HTML that refers to ``NAME.png``, ``NAME.svg`` and ``NAME.json`` beside it."""
    return _HEAD + "\n".join(_section(*result) for result in results) + "\n</body>\n</html>\n"


def _section(experiment: Experiment, record: Record) -> str:
    name = experiment.name
    rows = "\n".join(_row(check) for check in record.checks)
    options = " --quick" * (record.settings == experiment.quick) + f" --seed {record.seed}" * (record.seed != 0)
    return f"""<section id="{name}">
<h2>{escape(experiment.title)}</h2>
<figure><a href="{name}.svg"><img src="{name}.png" alt="{escape(experiment.title)}"></a></figure>
<p>{escape(experiment.see)}</p>
<table>
<tr><th>acceptance figure</th><th>reached</th><th>expected</th><th></th></tr>
{rows}
</table>
<p><a href="{name}.json">numbers</a> · seed {record.seed} · <code>somcot reproduce {name}{options}</code></p>
</section>"""


def _row(check: Check) -> str:
    mark = "met" if check.passed else '<span class="miss">missed</span>'
    expected = f"{'at least' if check.relation == '>=' else 'at most'} {check.limit:.3g}"
    return f"<tr><td>{escape(check.name)}</td><td>{check.value:.3g}</td><td>{expected}</td><td>{mark}</td></tr>"
