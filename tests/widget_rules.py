"""The rules of every widget: a pure and legible picture, a label on each control, little work for a move. A lesson's
test makes its tests from here:

    test_pictures, test_moves, test_controls = widget_tests(widgets, {"kv_size": [settings at the ends of the controls,
    ...]})
"""

import xml.etree.ElementTree as ElementTree

import ipywidgets
import pytest
from picture_rules import assert_legible

from pagedkv.simulation import experiment

BYTES = 600_000  # of an SVG at most: what a browser draws without a pause


def widget_tests(module, settings: dict[str, list[dict]]):
    """Three tests over the widgets of `module`: `settings` maps NAME to arguments of NAME_svg, at the ends of its
    controls.

    Also holds that `settings` names every widget of the module.
    """
    found = {name.removesuffix("_svg") for name in vars(module) if name.endswith("_svg")}
    assert found == set(settings), f"widgets without settings, or the other way round: {found ^ set(settings)}"

    @pytest.mark.parametrize(
        ("name", "values"), [(name, values) for name, cases in settings.items() for values in cases]
    )
    def pictures(name, values):
        draw = getattr(module, f"{name}_svg")
        svg = draw(**values)
        assert svg == draw(**values)
        assert len(ElementTree.fromstring(svg).get("aria-label")) > 40
        assert_legible(svg)

    @pytest.mark.parametrize("name", settings)
    def moves(name, monkeypatch):
        """A slider's move is a second call: long simulations are kept, and what is drawn is small."""
        draw, simulated = getattr(module, f"{name}_svg"), []
        for values in settings[name]:
            draw(**values)
        for place in (experiment, module):
            if simulate := getattr(place, "simulate", None):
                monkeypatch.setattr(place, "simulate", counted(simulate, simulated))
        assert max(len(draw(**values)) for values in settings[name]) < BYTES
        assert set(simulated) <= {1}  # what one request holds is looked up anew

    @pytest.mark.parametrize("name", settings)
    def controls(name):
        from matplotlib import pyplot

        box, changed = getattr(module, name)(), 0
        pane = box.children[2]
        assert pane.value.startswith("<svg")
        for control in (child for row in box.children[:2] for child in row.children):
            assert control.description.strip()
            before = pane.value
            if isinstance(control, ipywidgets.IntSlider):
                control.value = control.max
            elif isinstance(control, (ipywidgets.Dropdown, ipywidgets.SelectionSlider)) and len(control.options) > 1:
                control.index = 1 if control.index != 1 else 0
            changed += pane.value != before
        assert changed and pane.value.startswith("<svg") and pyplot.get_fignums() == []

    return pictures, moves, controls


def counted(simulate, simulated):
    return lambda requests, *rest: simulated.append(len(requests)) or simulate(requests, *rest)
