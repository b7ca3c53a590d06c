"""Sphinx's settings of the web book; `python -m pagedkv.course.book` lays out the pages beside a copy of this file."""

import re

project = "pagedkv"
author = "the pagedkv authors"
copyright = "the pagedkv authors. Prose and pictures: CC BY 4.0, code: MIT"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["_static/**"]

nb_execution_mode = "off"  # pages show what is stored
nb_render_markdown_format = "myst"  # what a cell displays, as what stands around it: with tables
nb_ipywidgets_js = {}  # no script of another host
nb_code_prompt_show, nb_code_prompt_hide = "Show what the cell prints", "Hide what the cell prints"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
myst_heading_slug_func = "pagedkv.course.book.page.slug"
mathjax_path = "mathjax/tex-svg.js"  # MathJax 3.2.2

smartquotes = False  # text and docstrings as they are written
default_role = "code"  # docstrings have names in single backticks
add_module_names = False
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
autodoc_preserve_defaults = True  # as they are written
autodoc_inherit_docstrings = False  # a method is explained once, in the class that says what it is for

html_theme = "furo"
html_title = "pagedkv"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = [("explore.js", {"defer": "defer"})]
html_favicon = "_static/favicon.svg"
html_copy_source = html_use_index = html_domain_indices = False  # the search finds what an index would
html_show_sphinx = False
pygments_dark_style = "github-dark"
copybutton_selector = ".cell_input pre, div.highlight-python pre"


def signature(app, what, name, member, options, arguments, result):
    """The value of a field that is made anew for each object has no source: dots stand for it."""
    return (re.sub(r"<factory>", "...", arguments) if arguments else arguments), result


def setup(app):
    # A field of a NamedTuple has a docstring that says only its number.
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, member, skip, options: (
            str(getattr(member, "__doc__", "")).startswith("Alias for field") or None
        ),
    )
    app.connect("autodoc-process-signature", signature)
