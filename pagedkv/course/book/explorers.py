"""A widget where no kernel runs: all that its controls can reach is drawn when the book is made.

The widget itself says which controls it has and which function draws it. A page gets a native slider or list for each
control and the first picture; `book/_static/explore.js` loads the others when a control is first touched. Where the
values are too many, FEWER says which are kept, and the page says so too.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from html import escape
from importlib import import_module
from itertools import product
from math import prod

import ipywidgets

FEWER = {
    "reservation": {
        "prompt": (1, 128, 512, 1024),
        "output": (1, 128, 129, 256, 512, 513, 1024),
        "percent": range(0, 101, 10),
    },
    "kv_size": {"num_tokens": (1024, 4096, 8192, 32768, 131072, 196608, 262144), "batch": (1, 64)},
    "sharing": {"prompt_tokens": (1, 16, 80, 160), "generated": (0, 16, 100, 160)},
    "flat": {"done": (0, 8), "chunk": (1, 4, 8, 12), "prompt": (0, 8)},
    "budget": {"prompt": (1, 4, 8, 20, 30)},
    "lives": {"num_blocks": (20, 25, 40, 50, 60, 80, 100, 140, 160), "output": (1, 20, 40)},
    "cut": {"cut": (608, 1024, 1664, 4096, 16384)},
    "window": {"num_tokens": range(25, 201, 25), "window": (1, 8, 16, 32, 64, 100, 150, 200)},
}
MOST = 700  # pictures of one widget


class Explorer:
    """One widget, "lesson_4_2:online": its controls with their values, and the pictures that these give."""

    def __init__(self, name: str):
        wing, _, self.name = name.partition(":")
        self.box = getattr(import_module(f"pagedkv.course.{wing}.widgets"), self.name)()
        fewer = FEWER.get(self.name, {})
        self.controls = {
            parameter: _Control(parameter, control, fewer.get(parameter))
            for parameter, control in self.box.controls.items()
            if isinstance(control, ipywidgets.Widget)
        }

    @property
    def movable(self) -> bool:
        """Whether pictures can be drawn beforehand: no button writes a history, and the values are not too many."""
        values = [len(control.values) for control in self.controls.values()]
        return len(self.controls) == len(self.box.controls) and prod(values) <= MOST

    @property
    def file(self) -> str:
        """The name of its script in the folder `_static`."""
        return f"explorers/{self.name}.js"

    @cached_property
    def pictures(self) -> list[str]:
        """The SVGs for all values, those of the last control changing fastest."""
        values = [control.values for control in self.controls.values()]
        return [self.box.picture(**dict(zip(self.controls, row, strict=True))) for row in product(*values)]

    def script(self) -> str:
        """JavaScript that hands the pictures to the page, each piece of them written once."""
        places: dict[str, int] = {}
        drawn = [
            [places.setdefault(piece, len(places)) for piece in re.split(r"(?=<)", picture) if piece]
            for picture in self.pictures
        ]
        data = json.dumps({"pieces": list(places), "pictures": drawn}, ensure_ascii=False, separators=(",", ":"))
        return f"(window.explorers ??= {{}})[{json.dumps(self.name)}] = {data};\n"

    def html(self, static: str) -> str:
        """The controls, the picture that the widget opens with, and which values there are; `static` is the way from
        a page to the folder `_static`.
        """
        first = self.box.picture(**{name: control.start for name, control in self.controls.items()})
        controls = "".join(control.html() for control in self.controls.values())
        said = " ".join(control.sentence() for control in self.controls.values())
        return (
            f'<div class="explorer" data-name="{self.name}" data-source="{static}/{self.file}">'
            f'<div class="controls">{controls}</div><div class="picture">{first}</div>'
            '<details><summary>The picture in words</summary><p aria-live="polite"></p></details>'
            f'<p class="values">{escape(said)}</p></div>'
        )


class _Control:
    """A control of a widget, with its values and their texts: all of them, or those of `fewer`."""

    def __init__(self, parameter: str, control: ipywidgets.Widget, fewer: Sequence | None):
        self.parameter, self.label, self.start = parameter, control.description, control.value
        self.listed = isinstance(control, ipywidgets.Dropdown)
        if isinstance(control, ipywidgets.IntSlider):
            options = [(f"{value:,}", value) for value in range(control.min, control.max + 1, control.step)]
        else:
            options = [option if isinstance(option, tuple) else (str(option), option) for option in control.options]
        self.options = [(text, value) for text, value in options if fewer is None or value in (*fewer, self.start)]
        self.values = [value for _, value in self.options]
        self.whole_range = isinstance(control, ipywidgets.IntSlider) and len(self.options) == len(options)

    def html(self) -> str:
        texts, at = [text for text, _ in self.options], self.values.index(self.start)
        if self.listed:
            options = "".join(
                f"<option{' selected' * (i == at)}>{escape(text)}</option>" for i, text in enumerate(texts)
            )
            return f"<label><span>{escape(self.label)}</span><select>{options}</select></label>"
        return (
            f'<label><span>{escape(self.label)}</span><input type="range" min="0" max="{len(texts) - 1}" value="{at}" '
            f'autocomplete="off" aria-valuetext="{escape(texts[at])}" data-texts="{escape(json.dumps(texts))}">'
            f"<output>{escape(texts[at])}</output></label>"
        )

    def sentence(self) -> str:
        """Which values there are."""
        texts = [text for text, _ in self.options]
        if self.whole_range:
            return f"{self.label}: every whole number from {texts[0]} to {texts[-1]}."
        return f"{self.label}: {', '.join(texts[:-1])} and {texts[-1]}."
