"""The widgets without a browser: their pictures are pure and quick, their controls have labels, and errors become sentences."""

import itertools
import xml.etree.ElementTree as ElementTree

import ipywidgets
import pytest
from svg_text import overlaps, text_boxes

from pagedkv.course.draw import widget
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lesson_2_1 import widgets as kv_size
from pagedkv.course.lesson_2_2 import fragmentation, reservation
from pagedkv.course.lesson_2_2 import widgets as arena_playground
from pagedkv.course.lesson_2_3 import widgets as watermark
from pagedkv.course.lesson_3_1 import address
from pagedkv.course.lesson_3_1 import widgets as blocks
from pagedkv.course.lesson_3_3 import widgets as sharing
from pagedkv.course.lesson_4_1 import widgets as reading
from pagedkv.course.lesson_4_2 import widgets as online
from pagedkv.simulation import experiment
from pagedkv.simulation.arena import OutOfMemory
from pagedkv.simulation.workload import WORKLOADS
from pagedkv.sizing import MODELS

MODULES = (address, arena_playground, blocks, fragmentation, kv_size, online, reading, reservation, sharing, watermark)
EXPLORERS = dict(zip("address arena_playground blocks fragmentation kv_size online reading reservation sharing watermark".split(), MODULES, strict=True))
# For each widget: settings at the ends of its controls, where pictures break.
SETTINGS = {
    "address": [
        {"position": position, "step": step, "block_size": size}
        for position, step, size in itertools.product((0, 37, 49), (1, 2, 3, 4), (8, 16, 32))
    ],
    "blocks": [
        {"operations": operations, "sequence": sequence, "position": position}
        for operations in (
            (), blocks.START, (*blocks.START, ("append", "B", 16), ("append", "A", 16), ("append", "D", 16), ("preempt",), ("preempt",)),
            (("append", "A", 16),) * 4 + (("fork", "A"),) * 5 + (("append", "E", 1), ("preempt",), ("append", "B", 3)),
            (*blocks.START, ("free", "A"), ("append", "D", 1), ("preempt",), ("resume",)),
        )
        for sequence, position in (("A", 0), ("D", 15), ("E", 63))
    ],
    "arena_playground": [
        {"operations": operations, "kind": kind}
        for kind in arena_playground.ARENAS
        for operations in ((), arena_playground.START, (*arena_playground.START, ("allocate", 64)), (("allocate", 1),) * 66)
    ],
    "fragmentation": [
        {"step": step, "left": left, "workload": workload, "colours": colours}
        for step, left, workload, colours in zip(
            itertools.cycle((0, 777, 2001, 10**6)), itertools.cycle(fragmentation.POLICIES), (*WORKLOADS, *WORKLOADS),
            itertools.cycle(("requests", "states")), strict=False,
        )
    ],
    "kv_size": [
        {"model": model, "num_tokens": tokens, "batch": batch, "dtype_bytes": size}
        for model in MODELS
        for tokens, batch, size in ((1, 1, 1), (2048, 7, 2), (131_072, 256, 4))
    ],
    "online": [
        {"step": step, "jump": jump, "place": place} for step, jump, place in itertools.product(range(4), (0.0, 6.0), range(4))
    ],
    "reading": [
        {"position": position, "block_size": size} for position, size in itertools.product((0, 15, 16, 37, 49), (8, 16, 32))
    ],
    "reservation": [
        {"prompt": prompt, "output": output, "percent": percent}
        for prompt, output in ((1, 1), (1, 1024), (1024, 1), (1024, 1024), (161, 338))
        for percent in (0, 50, 100)
    ],
    "sharing": [
        {"num_sequences": n, "prompt_tokens": prompt, "generated": generated, "kind": kind}
        for n, prompt, generated in ((1, 1, 0), (2, 160, 160), (6, 160, 160), (6, 33, 20))
        for kind in sharing.KINDS
    ],
    "watermark": [{"watermark": mark, "workload": name} for mark, name in zip((0, 0.01, 0.2) * 3, WORKLOADS, strict=False)],
}
CASES = [(name, settings) for name, cases in SETTINGS.items() for settings in cases]


@pytest.fixture(params=EXPLORERS)
def built(request):
    return EXPLORERS[request.param].explorer()


def controls(box):
    return [child for row in box.children[:2] for child in row.children]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_picture_is_pure_wellformed_and_legible(name, settings):
    picture = EXPLORERS[name].picture
    svg = picture(**settings)
    assert svg == picture(**settings)
    root = ElementTree.fromstring(svg)
    assert len(root.get("aria-label")) > 40
    boxes = text_boxes(svg)
    for x0, y0, x1, y1, text in boxes:
        assert x0 >= 0 and y0 >= 0 and x1 <= float(root.get("width")) and y1 <= float(root.get("height")), text
    assert overlaps(boxes) == []


def counted(simulate, simulated):
    return lambda requests, *rest: simulated.append(len(requests)) or simulate(requests, *rest)


@pytest.mark.parametrize("name", EXPLORERS)
def test_moving_a_slider_simulates_little_and_draws_little(name, monkeypatch):
    """A slider's move is a second call: long simulations are kept, drawing is not."""
    picture, cases = EXPLORERS[name].picture, SETTINGS[name][:3]
    for settings in cases:
        picture(**settings)
    simulated = []
    for module in (experiment, reservation):
        monkeypatch.setattr(module, "simulate", counted(module.simulate, simulated))
    assert all(len(picture(**settings)) < 600_000 for settings in cases)
    assert set(simulated) <= {1}  # what one request holds is looked up anew


def test_every_control_has_a_label(built):
    for control in controls(built):
        assert control.description.strip()
    assert built.children[2].value.startswith("<svg")


def test_moving_a_control_changes_the_picture_and_opens_no_figure(built):
    from matplotlib import pyplot

    pane, changed = built.children[2], 0
    for control in controls(built):
        if isinstance(control, ipywidgets.IntSlider):
            before = pane.value
            control.value = control.max
            changed += pane.value != before
        elif isinstance(control, (ipywidgets.Dropdown, ipywidgets.SelectionSlider)) and len(control.options) > 1:
            before = pane.value
            control.index = 1 if control.index != 1 else 0
            changed += pane.value != before
    assert changed and pane.value.startswith("<svg")
    assert pyplot.get_fignums() == []


def test_an_error_becomes_a_sentence_and_goes_away():
    def picture(n):
        if n == 3:
            raise OutOfMemory(3, 5, 2)
        return Canvas(10, 10).svg("Nothing much.")

    slider = widget.slider("Slots", 2, 0, 9)
    pane = widget.explore(picture, n=slider).children[2]
    assert pane.value.startswith("<svg")
    slider.value = 3
    assert "OutOfMemory" in pane.value and "3 slots requested, 5 free" in pane.value and "Traceback" not in pane.value
    slider.value = 4
    assert pane.value.startswith("<svg")


def test_playground_buttons():
    box = arena_playground.explorer()
    (kind, size, victim), (allocate, free, undo, clear), pane = box.children[0].children, box.children[1].children, box.children[2]
    clear.click()
    assert "empty arena" in pane.value and victim.options == ()
    free.click()  # nothing to free
    size.value = 60
    allocate.click()
    assert victim.options == (("r0: 60 slots", 0),)
    size.value = 5
    allocate.click()
    assert "5 slots requested, 4 free, the largest hole has 4" in pane.value
    undo.click()
    assert "allocated 60 slots" in pane.value
    free.click()
    assert "freed r0" in pane.value and victim.options == ()
    kind.value = "buddy"
    size.value = 9
    allocate.click()
    assert "7 lost to rounding" in pane.value


def test_playground_replays_failures_by_number():
    operations = (("allocate", 40), ("allocate", 40), ("allocate", 10), ("free", 1), ("free", 0))
    arena, extents, error = arena_playground.replay(operations, "first fit")
    assert list(extents) == [2] and error is None and arena.total_free == 54


def test_scrubber_reaches_the_last_step_of_the_longer_run():
    box = fragmentation.explorer()
    left, right, workload, colours, step = box.children[0].children
    for policy in ("oracle, buddy", "paged"):
        left.value = policy
        longest = max(experiment.run(workload.value, name).num_steps for name in (policy, "paged"))
        assert step.max == longest - 1
        step.value = step.max
        assert "1 run, " in box.children[2].value
    workload.value = "azure-code"
    assert step.value == step.max and f"at step {step.max:,}" in box.children[2].value


def test_reservation_explorer_agrees_with_the_policies():
    assert reservation.held("max length", 60, 140, 0) == {"token_states": 60, "reserved": 140, "internal": 1848, "external": 0}
    assert reservation.held("power of two, buddy", 161, 338, 338) == {"token_states": 499, "reserved": 0, "internal": 174, "external": 351}
    assert reservation.held("paged", 1, 40, 20) == {"token_states": 21, "reserved": 11, "internal": 0, "external": 0}
