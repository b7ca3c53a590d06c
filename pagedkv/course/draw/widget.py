"""The one way to build a widget: labelled controls above one pane that holds the SVG of a pure function.

`picture(**values) -> svg` knows nothing of widgets, so that a test calls it without a kernel. An error of the package
becomes a sentence in the pane. Everything can be worked with the keyboard: Tab to a control, arrow keys to move it.
"""

from collections.abc import Callable, Sequence
from html import escape

import ipywidgets
from traitlets import Any, HasTraits

from pagedkv.course.draw import style

_LOOK = {"style": {"description_width": "150px"}, "layout": {"width": "420px"}}


class State(HasTraits):
    """A value that buttons change and no control shows, such as the list of operations so far."""

    value = Any()


def slider(label: str, value: int, low: int, high: int, step: int = 1, quick: bool = True, wide: bool = False):
    """A whole number; `quick=False` redraws only on release, for pictures that take over 0.2 s.

    `wide` is as wide as a picture.
    """
    look = _LOOK | ({"layout": {"width": f"{style.WIDTH}px"}} if wide else {})
    return ipywidgets.IntSlider(value, low, high, step, description=label, continuous_update=quick, **look)


def steps(label: str, options: Sequence, value, quick: bool = True):
    """A slider over `options`, values or (text, value) pairs."""
    return ipywidgets.SelectionSlider(options=options, value=value, description=label, continuous_update=quick, **_LOOK)


def choice(label: str, options: Sequence, value):
    """A drop-down list of `options`, values or (text, value) pairs."""
    return ipywidgets.Dropdown(options=options, value=value, description=label, **_LOOK)


def button(label: str, action: Callable[[], None], tip: str = ""):
    """A button that calls `action()`."""
    widget = ipywidgets.Button(description=label, tooltip=tip, layout={"width": "auto"})
    widget.on_click(lambda _: action())
    return widget


def explore(picture: Callable[..., str], buttons: Sequence = (), inputs: Sequence = (), **controls) -> ipywidgets.VBox:
    """Controls and buttons above the SVG that `picture(**values)` returns, drawn now and whenever a value changes.

    Each of `controls`, a widget or a `State`, is named for the parameter of `picture` that its value becomes. `inputs`
    are further controls that only the buttons read.
    """
    pane = ipywidgets.HTML()

    def draw(**values) -> str:
        try:
            return picture(**values)
        except Exception as error:  # the learner reads what the package says; a traceback would hide it
            return (
                f'<p role="alert" style="padding:8px 12px;font-size:{style.TEXT}px;'
                f"background:{style.BACKGROUND};color:{style.INK};"
                f'border-left:6px solid {style.INTERNAL}"><b>{type(error).__name__}</b>: {escape(str(error))}</p>'
            )

    def redraw(_=None):
        pane.value = draw(**{name: control.value for name, control in controls.items()})

    for control in controls.values():
        control.observe(redraw, "value")
    redraw()
    shown = [control for control in (*controls.values(), *inputs) if isinstance(control, ipywidgets.Widget)]
    wrap = {"display": "flex", "flex_flow": "row wrap"}
    box = ipywidgets.VBox([ipywidgets.Box(shown, layout=wrap), ipywidgets.Box(list(buttons), layout=wrap), pane])
    box.picture, box.controls = draw, controls  # for a book, which draws beforehand what they can reach
    return box
