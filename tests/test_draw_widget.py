"""A widget: an error of the package becomes a sentence."""

from pagedkv.course.draw import widget
from pagedkv.course.draw.canvas import Canvas
from pagedkv.simulation.arena import OutOfMemory


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
