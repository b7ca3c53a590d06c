"""`python -m pagedkv.course.autograde HANDIN.ipynb --student ada --to FOLDER` grades one hand-in with nbgrader.

Made for a container that is thrown away afterwards (`teaching/Dockerfile` beside this file), since a hand-in is a
program: the gradebook is a new one that knows this hand-in alone, in a folder that goes with it. FOLDER gets
grades.csv, the feedback and the notebook as it ran, or nothing where it could not be graded; the exit status is then 1.
A cell that does not end is interrupted after CELL_SECONDS, and the others count; all of it ends after `--minutes`.
"""

import argparse
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from pagedkv.arguments import command
from pagedkv.course.mend import mend

SOURCES = Path(__file__).parents[2] / "notebooks" / "solutions"
CELL_SECONDS = 120
CHECK_SECONDS = 30  # learners have 10; a machine that grades may be busy
ERROR = re.compile(r"\s*[\w.]+(Error|Exception): ")


class NotGraded(Exception):
    """Why there are no grades, in one sentence."""


class Grader:
    """One hand-in, graded in a folder of its own until the time is over."""

    def __init__(self, folder: Path, lesson: str, student: str, seconds: float):
        self.folder, self.lesson, self.student = folder, lesson, student
        self.number, self.end = "_".join(lesson.split("_")[:2]), time.monotonic() + seconds

    def take(self, handin: Path) -> None:
        """Put source and hand-in where nbgrader looks for them."""
        for room in (f"source/{self.number}", f"submitted/{self.student}/{self.number}"):
            (self.folder / room).mkdir(parents=True)
        shutil.copy(SOURCES / f"{self.lesson}.ipynb", self.folder / f"source/{self.number}")
        try:
            notebook = nbformat.read(handin, as_version=4)
            mend(notebook)
            nbformat.write(notebook, self._place("submitted") / f"{self.lesson}.ipynb")
        except Exception as error:  # whatever the file holds
            raise NotGraded(f"{handin.name} is no notebook ({type(error).__name__})") from None

    def grade(self) -> None:
        self._nbgrader("generate_assignment", self.number)
        # iopub_timeout: how late what a cell has printed may come; nbgrader gives up after 4 seconds.
        limits = [f"--ExecutePreprocessor.{limit}={CELL_SECONDS}" for limit in ("timeout", "iopub_timeout")]
        self._nbgrader("autograde", self.number, "--create", *limits)
        self._nbgrader("generate_feedback", self.number)
        self._nbgrader("export", "--to=grades.csv")

    def hand_over(self, to: Path) -> str:
        """Copy what the teacher keeps; return the points in words."""
        with (self.folder / "grades.csv").open(encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        to.mkdir(parents=True, exist_ok=True)
        kept = {"autograded": "ipynb", "feedback": "html"}
        for source in (
            self.folder / "grades.csv",
            *(self._place(room) / f"{self.lesson}.{end}" for room, end in kept.items()),
        ):
            shutil.copyfile(source, part := to / f".{source.name}.part")
            os.replace(part, to / source.name)  # nbgrader's are read-only, those of an earlier time too
        return f"{float(row['score'] or 0):g} of {float(row['max_score']):g} points"

    def _place(self, room: str) -> Path:
        return self.folder / room / self.student / self.number

    def _nbgrader(self, command: str, *arguments: str) -> None:
        """Run one of nbgrader's commands, and end all that it has started when the time is over."""
        programs = Path(sys.executable).parent
        places = {f"JUPYTER_{name}_DIR": str(self.folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
        settings = places | {"CI": "1", "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
        settings["PAGEDKV_SECONDS"] = str(CHECK_SECONDS)
        log = self.folder / f"{command}.log"
        with log.open("w") as said:
            started = subprocess.Popen(
                [programs / "nbgrader", command, *arguments], cwd=self.folder, env=os.environ | settings,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
            try:
                status = started.wait(max(self.end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                raise NotGraded("it did not end in the time that a hand-in has") from None
            finally:
                if started.poll() is None:
                    os.killpg(started.pid, signal.SIGKILL)
                    started.wait()
        if status:
            lines = log.read_text(errors="replace").strip().splitlines() or [f"exit status {status}"]
            errors = [line for line in lines if ERROR.match(line)] or lines
            raise NotGraded(f"nbgrader {command} ends with {errors[-1].strip()[:200]}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m pagedkv.course.autograde", description="Grade one hand-in.")
    parser.add_argument("handin", metavar="HANDIN.ipynb", type=Path)
    parser.add_argument("--student", required=True)
    parser.add_argument("--to", required=True, metavar="FOLDER", type=Path)
    parser.add_argument("--minutes", type=float, default=15)
    given = parser.parse_args(arguments)
    lesson = given.handin.stem
    try:
        if not (SOURCES / f"{lesson}.ipynb").is_file():
            raise NotGraded(f"{given.handin.name} is the name of no lesson that has exercises")
        if Path(given.student).name != given.student:
            raise NotGraded("a student's id has no slash")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            grader = Grader(Path(folder), lesson, given.student, 60 * given.minutes)
            (given.to / grader.number / "grades.csv").unlink(missing_ok=True)  # an earlier one: no grade if this fails
            grader.take(given.handin)
            grader.grade()
            verdict = grader.hand_over(given.to / grader.number)
    except (NotGraded, OSError) as error:
        print(f"{given.student}, {lesson}: not graded: {error}")
        return 1
    print(f"{given.student}, {lesson}: {verdict}")
    return 0


if __name__ == "__main__":
    command(main)
