"""Sphinx configuration."""

from importlib.resources import files
from importlib.util import find_spec

from sphinx.domains.python import PyObject
from sphinx.util.docfields import TypedField

project = "somcot"
author = "The somcot developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
source_suffix = [".md", ".rst"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "somcot"
html_sidebars = {"index": []}  # the first page has no section to navigate in
html_show_sourcelink = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_mock_imports = [name for name in ("jax", "torch") if find_spec(name) is None]
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# MathJax from a package, as one file that needs no fonts: formulas are shown without a network too.
mathjax_path = "tex-svg.js"
html_static_path = [str(files("sphinx-mathjax-offline") / "static" / "mathjax" / mathjax_path)]

# Types in our docstrings are words, such as "array_like, shape (n_x, n_y)", and not names to link.
for field in PyObject.doc_field_types:
    if isinstance(field, TypedField):
        field.typerolename = ""
