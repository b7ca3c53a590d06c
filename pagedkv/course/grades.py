"""`python -m pagedkv.course.grades GRADES.csv ... --for moodle` makes a learning platform's columns of grades.

Reads what `nbgrader export` has written, several files as one, and writes a row for each
student with a column for each assignment. Canvas finds its students by the column SIS Login ID, and Moodle by the one
that is chosen when the file is imported; in both nbgrader's student id stands there. Who has not handed in has 0, as
nbgrader says. A hand-in that `autograde` could not grade has a number there too, which is none: in the course's folder
it lies under submitted/ and not under autograded/. It is named, and its cell is empty. Nothing is written where a file
cannot be trusted; the exit status is then 1.
"""

import argparse
import csv
import io
from pathlib import Path
from typing import NamedTuple

from pagedkv.arguments import command
from pagedkv.files import replace

READ = ("assignment", "student_id", "last_name", "first_name", "email", "score", "max_score")


class Unusable(Exception):
    """Why a file of grades is not used, in one sentence."""


class Student(NamedTuple):
    """A student, as nbgrader knows them."""

    student_id: str
    last_name: str
    first_name: str
    email: str


class Grades(NamedTuple):
    """The points of each student, by assignment, what each assignment can give, and whose hand-in has no grade."""

    scores: dict[Student, dict[str, float]]
    most: dict[str, float]
    failed: set[tuple[Student, str]]

    def ungraded(self) -> list[str]:
        """Each hand-in that has no grade in any of the files, as "ada 2_1"."""
        return sorted(f"{one.student_id} {name}" for one, name in self.failed if name not in self.scores[one])


def read(paths: list[Path]) -> Grades:
    """All files as one. Raises Unusable where one is no file of grades, or two disagree."""
    grades, known = Grades({}, {}, set()), {}
    for path in paths:
        for line, row in _rows(path):
            student = Student(*(row[field] for field in Student._fields))
            student = known.setdefault(student.student_id, student)
            name, score, most = row["assignment"], _number(row["score"], line), _number(row["max_score"], line)
            if grades.most.setdefault(name, most) != most:
                raise Unusable(f"{line}: {name} has {most:g} points here and {grades.most[name]:g} above")
            scores = grades.scores.setdefault(student, {})
            if _failed(path.parent, student.student_id, name):
                grades.failed.add((student, name))
            elif scores.setdefault(name, score) != score:
                raise Unusable(f"{line}: {student.student_id} has other points for {name} above")
    if not grades.scores:
        raise Unusable("no grades are in there")
    return grades


def _rows(path: Path):
    """(place, row) for each line below the heading."""
    reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")))
    heading = next(reader, [])
    if missing := [name for name in READ if name not in heading]:
        raise Unusable(f"{path}: no column {', '.join(missing)}; is it what `nbgrader export` writes?")
    for values in filter(None, reader):
        line = f"{path}, line {reader.line_num}"
        if len(values) != len(heading):  # nbgrader writes no quotes
            raise Unusable(f"{line}: {len(values)} values under {len(heading)} headings; does a name hold a comma?")
        yield line, dict(zip(heading, values, strict=True))


def _failed(course: Path, student: str, name: str) -> bool:
    """Whether it was handed in and `nbgrader autograde`, which removes what it could not finish, left nothing of it."""
    handed_in, graded = (course / room / student / name for room in ("submitted", "autograded"))
    return handed_in.is_dir() and not any(graded.glob("*.ipynb"))


def _number(text: str, line: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise Unusable(f"{line}: {text!r} is no number of points") from None


def moodle(grades: Grades) -> list[list]:
    """Rows for Moodle's import from CSV; the teacher maps one of the first columns to a user, each other to a grade."""
    return [
        ["First name", "Last name", "Email address", "Username", *grades.most],
        *(
            [one.first_name, one.last_name, one.email, one.student_id, *_points(scores, grades)]
            for one, scores in grades.scores.items()
        ),
    ]


def canvas(grades: Grades) -> list[list]:
    """Rows for Canvas's import into the gradebook, in the order in which it asks for its first five columns."""
    return [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *grades.most],
        ["    Points Possible", "", "", "", "", *(f"{most:g}" for most in grades.most.values())],
        *(
            [", ".join(filter(None, one[1:3])), "", "", one.student_id, "", *_points(scores, grades)]
            for one, scores in grades.scores.items()
        ),
    ]


def _points(scores: dict[str, float], grades: Grades) -> list[str]:
    return [f"{scores[name]:g}" if name in scores else "" for name in grades.most]


FORMS = {"moodle": moodle, "canvas": canvas}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m pagedkv.course.grades", description="Grades for a learning platform.")
    parser.add_argument("paths", nargs="+", metavar="GRADES.csv", type=Path)
    parser.add_argument("--for", dest="form", choices=FORMS, required=True)
    parser.add_argument("--to", type=Path, metavar="FILE", help="grades-moodle.csv or grades-canvas.csv, if left out")
    given = parser.parse_args(arguments)
    to, text = given.to or Path(f"grades-{given.form}.csv"), io.StringIO()
    try:
        grades = read(given.paths)
        csv.writer(text, lineterminator="\n").writerows(FORMS[given.form](grades))
        replace(to, text.getvalue())
    except (Unusable, OSError, UnicodeDecodeError, csv.Error) as error:
        file = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"nothing written: {file}")
        return 1
    print(
        f"{to}: {len(grades.scores)} students, {', '.join(f'{name} of {most:g}' for name, most in grades.most.items())}"
    )
    if ungraded := grades.ungraded():
        print(f"no grade, left empty: {', '.join(ungraded)}: autograde has not graded what was handed in")
    return 0


if __name__ == "__main__":
    command(main)
