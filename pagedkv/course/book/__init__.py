"""The web book (`make site`): the notebooks as they are stored, and what the engine's modules say of themselves.

Nothing is run but the drawing functions of the widgets, whose pictures are drawn beforehand. An ordinary Sphinx project
is laid out in build/book, from the notebooks and from book/ (settings, style, script, MathJax), and built in
build/html.
"""
