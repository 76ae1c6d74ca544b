"""``python -m tests.surface [--replace]``: freeze what is new in the public surface.

What is frozen and no longer there, or differs, is printed and refused; with ``--replace`` it is given up.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.surface import HERE, PARTS, Surface, collect, compare, frozen, listed, saved


def main(*, replace: bool) -> int:
    """Write the JSON files; the exit code."""
    old = frozen() if (HERE / "names.json").exists() else Surface({}, {}, {}, {}, {})
    with tempfile.TemporaryDirectory() as folder:
        new = collect(listed() if replace else listed() | set(old.names), inputs=Path(folder))
    lost = compare(old, new)
    for line in lost:
        print(line)
    if lost and not replace:
        print("nothing was written; --replace gives up what is listed here")
        return 1
    for part in PARTS:
        _write(part, getattr(new, part))
    for name in saved.write_missing():
        print(f"written: {name}")
    known = _values() if not replace else {}
    for name in saved.KINDS:
        if name not in known:
            with tempfile.TemporaryDirectory() as folder:
                known[name] = saved.read(name, Path(folder))
    _write("saved_values", known)
    print(", ".join(f"{len(getattr(new, part))} {part.replace('_', ' ')}" for part in PARTS))
    return 0


def _values() -> dict[str, Any]:
    path = HERE / "saved_values.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write(part: str, content: dict[str, Any]) -> None:
    """An entry per line; long lists and tables one below the other."""
    lines = []
    for name, value in sorted(content.items()):
        text = json.dumps(value, sort_keys=True)
        if len(text) > 120 and not isinstance(value, str):
            text = _indented(value)
        lines.append(f" {json.dumps(name)}: {text}")
    (HERE / f"{part}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _indented(value: Any) -> str:
    if isinstance(value, dict):
        rows = [f"  {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in sorted(value.items())]
        return "{\n" + ",\n".join(rows) + "\n }"
    return "[\n" + ",\n".join(f"  {json.dumps(v)}" for v in value) + "\n ]"


if __name__ == "__main__":
    sys.exit(main(replace="--replace" in sys.argv))
