"""What a prediction is: a question in a lesson's Markdown whose answer surprises, and here its answer with a reason.

A lesson's own stand in PREDICTIONS of its wing's `predictions.py`; its tests compute each answer anew. A learner picks
one of the options, or writes a number where there are none.
"""

import re
from dataclasses import dataclass
from html import escape
from math import isfinite

NUMBER = re.compile(r"[-+]?(?=\.?\d)(\d{1,3}([,_ ]\d{3})+|\d+)?(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)
ANSWER = "Decided? Then compare"  # what the answer is folded under where no kernel runs


@dataclass(frozen=True)
class Prediction:
    """`name` starts with the lesson ("4.2-rescale"). The answer is one of `options`, or a number in `unit`.

    `near` is how far from the answer, as a share of it, a number still counts as right.
    """

    name: str
    answer: str | float
    reason: str
    options: tuple[str, ...] = ()
    unit: str = ""
    near: float = 0.0

    def __post_init__(self):
        if self.options and (self.answer not in self.options or len(set(self.options)) != len(self.options)):
            raise ValueError(f"answer of {self.name} must be one of its options, {self.options}, not {self.answer!r}")
        if not self.options and (type(self.answer) not in (int, float) or not isfinite(self.answer)):
            raise ValueError(f"answer of {self.name} must be a number or one of options, not {self.answer!r}")

    def read(self, text: str | None) -> str | float:
        """The guess that a learner picked or typed. Raises ValueError with a sentence where it is none."""
        if self.options:
            if text not in self.options:
                raise ValueError("Pick one.")
            return text
        number = (text or "").strip().removesuffix(self.unit).removesuffix("%").strip()
        if not NUMBER.fullmatch(number):
            raise ValueError("Write a number, such as 1,234.5 or 2e6.")
        guess = float(re.sub("[,_ ]", "", number))
        if not isfinite(guess):
            raise ValueError("Write a smaller number.")
        return guess

    def agrees(self, guess) -> bool:
        if self.options:
            return guess == self.answer
        return abs(guess - self.answer) <= self.near * abs(self.answer) + 1e-9

    def compare(self, guess) -> str:
        """One or two sentences: the guess beside the answer."""
        said, is_so = self.words(guess), self.words(self.answer)
        if self.agrees(guess):
            return f"You said {said}, and so it is." if said == is_so else f"You said {said}. It is {is_so}: close."
        if self.options or min(guess, self.answer) <= 0:
            return f"You said {said}. It is {is_so}."
        which, times = (
            ("your guess is", guess / self.answer) if guess > self.answer else ("that is", self.answer / guess)
        )
        return f"You said {said}. It is {is_so}; {which} {times:,.3g} times as much."

    def words(self, value) -> str:
        if self.options:
            return value
        return f"{_short(value)} {self.unit.removesuffix('s') if value == 1 else self.unit}".strip()

    def html(self) -> str:
        """Options and folded answer, for a stored notebook or a page."""
        choices = "".join(f"<li>{escape(option)}</li>" for option in self.options)
        unit = escape(self.unit.removeprefix("of "))
        number = "share in " if self.unit == "%" else "number of " if unit else "number"
        asked = f"<ul>{choices}</ul>" if choices else f"<p>A {number}{unit}.</p>"
        answer = f"<b>{escape(self.words(self.answer))}.</b> {escape(self.reason)}"
        return f"{asked}<details><summary>{ANSWER}</summary>{answer}</details>"


def _short(number: float) -> str:
    """With separators; whole numbers whole, others to at most four digits that count."""
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
