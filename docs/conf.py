"""Sphinx configuration."""

project = "somcot"
author = "The somcot developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
source_suffix = [".md", ".rst"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "somcot"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
