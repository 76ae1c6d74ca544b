"""Sphinx configuration."""

import logging
import re
import warnings
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.util.docfields import TypedField

import somcot

project = "somcot"
author = "The somcot developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
source_suffix = [".md", ".rst"]
exclude_patterns = ["_build", "**sg_execution_times.rst"]  # the latter fetch scripts from elsewhere
html_theme = "pydata_sphinx_theme"
html_title = "somcot"
html_sidebars = {"index": [], "benchmarks": []}  # these have no section to navigate in
html_show_sourcelink = False
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_theme_options = {
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
default_role = "py:obj"  # `distance` is a link where there is such a name
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_mock_imports = [name for name in ("jax", "torch") if find_spec(name) is None]
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# The scripts of examples/ with their output. One that needs a package which is not there is shown, not run.
EXAMPLES = Path(__file__).parents[1] / "examples"
SECTIONS = ("start", "logs", "reinforcement", "molecules", "many", "loss", "paper")


def runs(script: Path) -> bool:
    """Whether the packages that a script may need and that are no dependency are there."""
    asked = re.findall(r"^(?:import|from) (?:somcot\.)?(jax|torch)\b", script.read_text(), re.MULTILINE)
    return all(find_spec(name) for name in asked)


def one_line(message: Warning | str, category: type[Warning], *_place: object) -> str:
    """A warning without the path of the script, which means nothing to a reader."""
    return f"{category.__name__}: {message}\n"


warnings.formatwarning = one_line  # type: ignore[assignment]
logging.getLogger("somcot").setLevel(logging.ERROR)  # what is compiled for the first time, and where it is kept

for page in (Path(__file__).parent / "gallery").rglob("*.rst"):  # of an earlier build, whose script has moved or gone
    if page.name != "index.rst" and not (EXAMPLES / page.parent.name / page.name).with_suffix(".py").exists():
        page.unlink()

sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "ignore_pattern": r"__init__\.py|^train_pendulum\.py$",  # the latter is a script of the paper, not a page
    "filename_pattern": "|".join(rf"/{path.name}$" for path in sorted(EXAMPLES.rglob("*.py")) if runs(path)),
    "subsection_order": [f"../examples/{folder}" for folder in SECTIONS],
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "capture_repr": (),  # what is printed, not what a line returns
    "abort_on_example_error": True,
    "min_reported_time": 3600,
    "plot_gallery": "True",
}

# MathJax from a package, as one file that needs no fonts: formulas are shown without a network too.
mathjax_path = "tex-svg.js"
html_static_path = ["static", str(files("sphinx-mathjax-offline") / "static" / "mathjax" / mathjax_path)]

# Types in our docstrings are words, such as "array_like, shape (n_x, n_y)", and not names to link.
for field in PyObject.doc_field_types:
    if isinstance(field, TypedField):
        field.typerolename = ""


def says_nothing(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields that the docstring of their class describes: of named tuples, and those computed on access."""
    text = getattr(member, "__doc__", None) or ""
    return True if text.startswith(("Alias for field number", "See the attribute")) else None


def box_pictures(app: Sphinx, page: nodes.document, name: str) -> None:
    """Give every picture a box, in which it can be moved where the screen is narrow."""
    for picture in list(page.findall(lambda node: type(node).__name__ in ("image", "imgsgnode"))):
        parent = picture.parent
        if isinstance(parent, nodes.section):
            box = nodes.container(classes=["picture"])
            picture.replace_self(box)
            box += picture
        elif isinstance(parent, nodes.paragraph) and len(parent) == 1:
            parent["classes"].append("picture")


def keep_numbers_whole(app: Sphinx, page: nodes.document, name: str) -> None:
    """Mark short cells of tables: a line must not end at the minus sign of 1e-15."""
    for cell in page.findall(nodes.entry):
        if len(cell.astext()) <= 24:
            cell["classes"].append("short")


def no_type_in_front(app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Begin properties with an empty comment, or napoleon takes what stands before a colon for their type."""
    if what in ("property", "attribute"):
        lines[:0] = ["..", ""]


def link_pages(app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Turn names of pages, such as docs/clocks.md, into links; help() shows them as they are."""
    lines[:] = [re.sub(r"(?<!/)(`{0,2})docs/([\w-]+)\.md\1", r":doc:`/\2`", line) for line in lines]


def examples_as_gallery(app: Sphinx, name: str, source: list[str]) -> None:
    """Lead links to examples, which work in the repository, to their pages of the gallery."""
    source[0] = re.sub(r"\]\(\.\./examples/(\w+)/(\w+)\.py\)", r"](gallery/\1/\2.rst)", source[0])
    source[0] = source[0].replace("](../examples)", "](gallery/index.rst)")


def as_imported(app: Sphinx, page: nodes.document) -> None:
    """Name what users import from the top level by that path, `somcot.distance`: in headings, links and the search."""
    known = app.env.domains.python_domain.objects
    for signature in page.findall(addnodes.desc_signature):
        module, name = signature.get("module") or "", signature.get("fullname") or ""
        top = name.partition(".")[0]
        if module in ("", "somcot") or top not in somcot.__all__:
            continue
        if getattr(import_module(module), top, None) is not getattr(somcot, top):  # another one of this name
            continue
        for prefix in signature.findall(addnodes.desc_addname):
            prefix.replace_self(addnodes.desc_addname("", "somcot."))
        entry = known[f"{module}.{name}"]
        known[f"somcot.{name}"], known[f"{module}.{name}"] = entry, entry._replace(aliased=True)


def as_text(page: Path) -> str:
    """The Markdown of a page, with the file that it includes, and with links to what the site has."""
    text = page.read_text(encoding="utf-8")
    if included := re.fullmatch(r"```\{include\} (\S+)\s+```\s*", text):
        text = (page.parent / included[1]).read_text(encoding="utf-8")
    text = re.sub(r"\]\(\.\./examples/", "](gallery/", text).replace("](../examples)", "](gallery/index.html)")
    return re.sub(r"(\]\(|\{image\} )images/", r"\1_images/", text)


def markdown_pages(app: Sphinx, error: Exception | None) -> None:
    """Put the Markdown of each page beside it, the scripts of the gallery, and a list of both (llms.txt)."""
    if error is not None or app.builder.name != "html":
        return
    out, lines = Path(app.outdir), ["# somcot", "", "> How far apart are two Markov processes?", "", "## Pages", ""]
    for name in sorted(app.env.found_docs):
        page = Path(app.srcdir) / f"{name}.md"
        if page.exists():
            (out / f"{name}.md").write_text(as_text(page), encoding="utf-8")
            lines.append(f"- [{app.env.titles[name].astext()}]({name}.md)")
    lines += ["", "## Examples", ""]
    for script in sorted(EXAMPLES.glob("*/*.py")):
        name = f"gallery/{script.parent.name}/{script.stem}"
        if name in app.env.titles:
            (out / f"{name}.py").write_bytes(script.read_bytes())
            lines.append(f"- [{app.env.titles[name].astext()}]({name}.py)")
    (out / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", examples_as_gallery)
    app.connect("doctree-read", as_imported)
    app.connect("build-finished", markdown_pages)
    app.connect("autodoc-process-docstring", no_type_in_front, priority=100)  # before napoleon
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("doctree-resolved", keep_numbers_whole)
    app.connect("autodoc-skip-member", says_nothing)
    app.connect("doctree-resolved", box_pictures)
