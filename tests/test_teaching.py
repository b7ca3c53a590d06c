"""What a teacher reads is true: the points are those of the checks, the plans' sections exist, their minutes add up."""

import json
import re
from functools import lru_cache
from pathlib import Path

import pytest

from pagedkv.course import points
from pagedkv.course.lessons import all_exercises, find, wings

ROOT = Path(__file__).parents[1]
TEACHING = (ROOT / "pagedkv/course/teaching/README.md").read_text(encoding="utf-8")
PLANS = {
    heading: re.findall(r"^\| (\d+) \| \[([\d.]+)\]\((?:\.\./)*(\S+)\) \| (.*?) \|", text, re.MULTILINE)
    for heading, text in re.findall(r"^####? (.*?)\n(.*?)(?=^#|\Z)", TEACHING, re.MULTILINE | re.DOTALL)
}


@lru_cache
def headings(path: str) -> set[str]:
    cells = json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return set(re.findall(r"^##+ (.*)", text, re.MULTILINE))


def test_the_table_has_the_minutes_and_points_of_every_lesson_and_their_sums():
    rows = re.findall(r"^\| \[([\d.]+) (.*?)\]\((?:\.\./)*notebooks/\S+\) \| (\d+) \| (\d+) \|", TEACHING, re.MULTILINE)
    timetable = points.timetable()
    said = [(number, title, int(minutes), int(most)) for number, title, minutes, most in rows]
    assert said == [(row.number, row.title, row.minutes, row.points) for row in timetable]
    assert [row.number for row in timetable] == [wing.number for wing in wings()]
    assert f"| in all | {sum(row.minutes for row in timetable)} | {sum(row.points for row in timetable)} |" in TEACHING


def test_every_exercise_stands_there_with_its_points():
    named = {name: int(most) for name, most in re.findall(r"(\d\.\d-[a-z-]+) \((\d+)\)", TEACHING)}
    lessons = all_exercises()
    assert f"| {len(lessons.pop('5.2'))} tasks, 1.1 to 3.4 |" in TEACHING
    assert named == {one.name: find(one.name).max_points for exercises in lessons.values() for one in exercises}


def test_the_plans_are_of_sections_that_exist():
    assert sum(map(bool, PLANS.values())) == 6
    for rows in filter(None, PLANS.values()):
        for _, lesson, path, section in rows:
            assert Path(path).name.startswith(lesson.replace(".", "_") + "_")
            assert section in headings(path), (lesson, section)


@pytest.mark.parametrize("plan", [plan for plan, rows in PLANS.items() if rows])
def test_the_minutes_of_a_plan_add_up(plan):
    minutes = 90 if plan.startswith("Session") else int(plan.split()[0])
    assert sum(int(row[0]) for row in PLANS[plan]) == minutes and len({row[1:] for row in PLANS[plan]}) == len(
        PLANS[plan]
    )


def test_the_command_prints_lessons_and_sums(capsys, monkeypatch):
    assert points.main() == 0
    said = capsys.readouterr().out.splitlines()
    timetable = points.timetable()
    assert len(said) == len(timetable) + 2
    assert said[-1].split()[2:] == [f"{sum(column):,}" for column in list(zip(*timetable, strict=True))[2:]]
    monkeypatch.setattr(points, "timetable", lambda: [])
    assert points.main() == 1 and "whole course" in capsys.readouterr().out
