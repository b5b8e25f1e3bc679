"""Configuration of the documentation build."""

from importlib.metadata import version as installed_version

project = "Tiburon"
author = "The Tiburon developers"
copyright = "2026, The Tiburon developers"
version = release = installed_version("tiburon")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_typehints = "description"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Tiburon {release}"
