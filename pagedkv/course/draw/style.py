"""One palette and one text size for every picture.

Colours are Paul Tol's colour-blind-safe ones. The states of memory also differ in lightness, and the wasted ones are
hatched, so that they can be told apart in greyscale. Sizes are CSS pixels, as in the notebook that shows the picture.
"""

from collections.abc import Sequence
from functools import cache

TOKEN = "#004488"  # slots that hold K and V of a token
RESERVED = "#6699CC"  # held by a request that will fill it later
INTERNAL = "#BB5566"  # held by a request that will never fill it
EXTERNAL = "#EECC66"  # unused and of no use to who waits: holes that are too small, and what an allocator rounds up
FREE = "#F2F2F2"  # unused, and any request could use it
HIGHLIGHT = "#AA3377"  # the one thing that the picture is about: arrows and outlines
INK = "#222222"
MUTED = "#595959"  # secondary text: 7:1 on the background
GRID = "#BBBBBB"
BACKGROUND = "#FFFFFF"

# In the order in which a request's memory and the stacked areas are drawn: (name, colour, hatch). A hatch means the
# same in every picture: "/" is reserved, "\" internal, "x" external; nothing else is hatched.
STATES: dict[str, tuple[str, str | None]] = {
    "token_states": (TOKEN, None),
    "reserved": (RESERVED, "/"),
    "internal": (INTERNAL, "\\"),
    "external": (EXTERNAL, "x"),
    "free": (FREE, None),
}
STATE_NAMES = {state: state.replace("_", " ") for state in STATES}

# Fills for labelled cells, one per request; black text is readable on each.
REQUESTS = ("#77AADD", "#EE8866", "#EEDD88", "#44BB99", "#FFAABB", "#99DDFF", "#BBCC33", "#AAAA00")

TEXT = 14  # CSS pixels: the size of a notebook's own text, and the smallest used
TITLE = 17
FONTS = "DejaVu Sans, Verdana, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
WIDTH = 840  # CSS pixels: fits a notebook on a laptop without scaling


def request_colour(request_id: int) -> str:
    """The fill of a request's cells; the cycle repeats every eight requests, so write the number into the cell too."""
    return REQUESTS[request_id % len(REQUESTS)]


def arrow_colour(fill: str) -> str:
    """The colour of a request's arrows and lines: that of its cells, dark enough to be followed on the background."""
    return mix(fill, INK, 0.4)


@cache
def mix(colour: str, other: str = BACKGROUND, share: float = 0.5) -> str:
    """`share` of the way from `colour` to `other`: a tint for the part of a request's memory that is not used yet."""
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in zip(_rgb(colour), _rgb(other), strict=True))


@cache
def text_on(fill: str) -> str:
    """Ink or white, whichever is easier to read on `fill`."""
    return max((INK, BACKGROUND), key=lambda text: contrast(text, fill))


@cache
def contrast(colour: str, other: str) -> float:
    """The WCAG contrast ratio of two colours, from 1 to 21; text needs 4.5."""
    low, high = sorted((_luminance(colour), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def hatch_colour(fill: str | None) -> str:
    """Lines that are seen on `fill` without shouting."""
    return mix(fill or BACKGROUND, text_on(fill or BACKGROUND), 0.45)


def text_width(text: str, size: float = TEXT, mono: bool = False) -> float:
    """The width of `text` in pixels, within a few per cent, for layout without a font engine."""
    return size * (0.602 * len(text) if mono else sum(map(_advance, text)))


def counted(number: int, thing: str) -> str:
    """ "1 block", "1,234 blocks"."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _advance(letter: str) -> float:
    """The advance of a letter of DejaVu Sans in ems, by class."""
    if letter in "ijlI.,:;'|! ":
        return 0.31
    if letter in "frt()[]/-":
        return 0.39
    return 0.95 if letter in "mwMW%" else 0.63


def matplotlib_settings() -> dict:
    """rcParams for `matplotlib.rc_context`: the same fonts, sizes and colours, at 96 pixels to the inch."""
    points = TEXT * 0.75
    return {
        "font.family": "DejaVu Sans",
        "font.size": points,
        "axes.labelsize": points,
        "axes.titlesize": TITLE * 0.75,
        "axes.titlelocation": "left",
        "xtick.labelsize": points,
        "ytick.labelsize": points,
        "legend.fontsize": points,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "figure.facecolor": BACKGROUND,
        "axes.facecolor": BACKGROUND,
        "figure.dpi": 96,
        "hatch.linewidth": 0.75,
        "svg.hashsalt": "pagedkv",
    }


def _rgb(colour: str) -> Sequence[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _rgb(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
