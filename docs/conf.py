"""Configuration of the documentation build.

The tutorials are notebooks. They are executed, and their results kept until they change, where
`TIBURON_DOCS_EXECUTE` is set, as `make docs` does; checks of the pages alone do not run them.
"""

import os
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version as installed_version
from pathlib import Path

from docutils import nodes
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.roles import XRefRole

from tiburon.exports import EXPORTS

project = "Tiburon"
author = "The Tiburon developers"
copyright = "2026, The Tiburon developers"
version = release = installed_version("tiburon")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "**/generated/*.md"]
templates_path = ["_templates"]

COMPLETE = bool(os.environ.get("TIBURON_DOCS_EXECUTE"))
nb_execution_mode = "cache" if COMPLETE else "off"
nb_execution_timeout = 600
nb_merge_streams = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True

if COMPLETE:
    extensions.append("sphinx.ext.viewcode")
autosummary_imported_members = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
default_role = "code_or_link"

# members are listed on the page of their class, not in tables of contents
toc_object_entries = False

# equations are drawn when the site is built: pages read offline and without scripts
html_math_renderer = "drawn"
myst_update_mathjax = False

# of links in text, those to servers that readers start themselves
linkcheck_ignore = [r"https?://(127\.0\.0\.1|localhost|study-scheduler|registry\.example\.org).*"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["gallery.css"]
html_js_files = ["gallery.js"]
html_title = f"Tiburon {release}"


class CodeOrLink(XRefRole):
    """Text in single backticks of docstrings: code, with a link where it is a public name."""

    def run(self):
        """Return the nodes of one use of the role."""
        name = self.text.removeprefix("tiburon.").removeprefix("tb.").removesuffix("()")
        if name not in EXPORTS:
            return [nodes.literal(self.rawtext, self.text)], []
        self.refdomain, self.reftype = "py", "obj"
        self.classes = ["xref", "py", "py-obj"]
        self.target = f"tiburon.{name}"
        self.title = self.text
        self.has_explicit_title = True
        return self.create_xref_node()


def _write_math(translator, node, *, inline):
    """Write an equation as a vector drawing in the size and color of the text around it."""
    import ziamath  # here: checks of the pages alone draw nothing

    size = 16.0
    text = node.astext()
    drawing = ziamath.Math.fromlatex(text, size=size, color="currentColor", inline=inline).svgxml()
    _, top, width, height = (float(part) for part in drawing.get("viewBox").split())
    drawing.set("width", f"{width / size:.3f}em")
    drawing.set("height", f"{height / size:.3f}em")
    # the baseline of the equation is that of the line
    drawing.set("style", f"vertical-align: {-(top + height) / size:.3f}em")
    drawing.set("role", "img")
    drawing.set("aria-label", text)
    tag = "span" if inline else "div"
    opening = translator.starttag(node, tag, "", CLASS="math")
    translator.body.append(opening + ElementTree.tostring(drawing, "unicode") + f"</{tag}>")
    raise nodes.SkipNode


def write_inline_math(translator, node):
    """Write an equation inside a sentence."""
    _write_math(translator, node, inline=True)


def write_display_math(translator, node):
    """Write an equation on lines of its own."""
    _write_math(translator, node, inline=False)


def setup(app):
    """Register equations and the role of backticks; read docstrings of attributes as text."""
    app.add_html_math_renderer("drawn", (write_inline_math, None), (write_display_math, None))
    # by default, words before the first colon would be the type of the attribute
    GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end
    app.add_role("code_or_link", CodeOrLink())
    # pages of names that are no longer public, from builds of earlier versions
    for page in Path(app.srcdir, "reference", "generated").glob("tiburon.*.rst"):
        if page.stem.removeprefix("tiburon.") not in EXPORTS:
            page.unlink()
