"""Sphinx: hand-written pages, and a page for every method generated from what is true."""

import re
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from generate import write_pages  # noqa: E402

from practicum import __version__  # noqa: E402

project = "Practicum"
author = "The Practicum founders"
copyright = "The Practicum founders; Apache-2.0"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
smartquotes = False  # --option is no dash
suppress_warnings = ["misc.highlighting_failure"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
autosummary_generate = False
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "Practicum"
html_static_path: list[str] = []
html_math_renderer = "mathml"


LITERAL = re.compile(r"(``.*?``|:math:`.*?`)")
MATH = re.compile(r"^(\s*)\.\. math::")


def plain_bars_and_underscores(app, what, name, thing, options, lines):
    """|x| is an absolute value and n_iter_ an attribute here, not reStructuredText's references."""
    formula = None  # the indent of the displayed formula we are in
    for i, line in enumerate(lines):
        if formula is not None and line.strip() and not line.startswith(formula + " "):
            formula = None
        if found := MATH.match(line):
            formula = found[1]
        if formula is None and not line.lstrip().startswith((">>>", "...", "..")):
            parts = LITERAL.split(line)
            parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", p) for p in parts[::2]]
            lines[i] = "".join(parts)


def inline_formula(translator, node):
    """MathML, which browsers draw by themselves: the pages need no script from elsewhere."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed_formula(translator, node):
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def skip_inherited_routing(app, what, name, thing, skip, options):
    """scikit-learn's metadata routing adds ``set_..._request`` to every estimator."""
    return True if re.fullmatch(r"set_\w+_request", name) else skip


def setup(app):
    """The generated pages are written before Sphinx looks for sources."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("autodoc-process-docstring", plain_bars_and_underscores, priority=600)
    app.connect("autodoc-skip-member", skip_inherited_routing)
    write_pages(HERE)
