"""nbgrader's grades in a learning platform's columns: every student once, each assignment a column, or nothing."""

import csv

import pytest

from pagedkv.course.grades import main

HEADING = "assignment,duedate,timestamp,student_id,last_name,first_name,email"
HEADING += ",raw_score,late_submission_penalty,score,max_score"
TWO_LESSONS = f"""{HEADING}
2_1,,,ada,Lovelace,Ada,ada@example.org,5.0,0.0,5.0,6.0
2_1,,2026-11-30 09:00:00,ben,,,,2.5,0.0,2.5,6.0
2_2,,,ada,Lovelace,Ada,ada@example.org,0.0,0.0,0.0,8.0
2_2,,,ben,,,,8.0,1.0,7.0,8.0
"""  # as nbgrader 0.9.6 writes it


@pytest.fixture
def convert(tmp_path, capsys):
    """Runs the command on texts; returns its exit status, what it said, and the rows that it wrote."""

    def run(form, *texts):
        paths = [tmp_path / f"{number}.csv" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        to = tmp_path / "out.csv"
        status = main([*map(str, paths), "--for", form, "--to", str(to)])
        rows = list(csv.reader(to.read_text(encoding="utf-8").splitlines())) if to.exists() else None
        assert {path.name for path in tmp_path.iterdir()} <= {*(path.name for path in paths), "out.csv"}
        return status, capsys.readouterr().out, rows

    return run


def test_moodle_gets_a_user_and_a_column_for_each_lesson(convert):
    status, said, rows = convert("moodle", TWO_LESSONS)
    assert status == 0 and said.endswith("out.csv: 2 students, 2_1 of 6, 2_2 of 8\n")
    assert rows == [
        ["First name", "Last name", "Email address", "Username", "2_1", "2_2"],
        ["Ada", "Lovelace", "ada@example.org", "ada", "5", "0"],
        ["", "", "", "ben", "2.5", "7"],
    ]


def test_canvas_gets_its_five_columns_and_the_points_that_are_possible(convert):
    assert convert("canvas", TWO_LESSONS)[2] == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "2_1", "2_2"],
        ["    Points Possible", "", "", "", "", "6", "8"],
        ["Lovelace, Ada", "", "", "ada", "", "5", "0"],
        ["", "", "", "ben", "", "2.5", "7"],
    ]


def test_several_files_are_one_and_who_is_missing_in_one_has_an_empty_cell(convert):
    lines = TWO_LESSONS.splitlines(keepends=True)
    status, _, rows = convert("moodle", "".join(lines[:3]), "".join([lines[0], lines[3]]), "".join(lines[:2]))
    assert status == 0 and [row[3:] for row in rows[1:]] == [["ada", "5", "0"], ["ben", "2.5", ""]]


def handed_in(course, *, graded, failed):
    """The folders that nbgrader leaves: what `autograde` could not finish is under submitted/ alone."""
    for place in (*graded, *failed):
        (course / "submitted" / place).mkdir(parents=True)
    for place in graded:
        (course / "autograded" / place).mkdir(parents=True)
        (course / "autograded" / place / "lesson.ipynb").touch()


@pytest.mark.parametrize("form", ["moodle", "canvas"])
def test_a_hand_in_that_could_not_be_graded_is_named_and_has_an_empty_cell(form, tmp_path, capsys):
    handed_in(tmp_path, graded=["ada/2_1", "ben/2_1"], failed=["ben/2_2"])  # ada has not handed in 2_2: 0, as before
    (tmp_path / "grades.csv").write_text(TWO_LESSONS)
    assert main([str(tmp_path / "grades.csv"), "--for", form, "--to", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("no grade, left empty: ben 2_2: autograde has not")
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row[-2:] for row in rows[-2:]] == [["5", "0"], ["2.5", ""]]


def test_a_grade_from_a_container_counts_for_a_hand_in_that_failed_in_the_course(tmp_path, capsys):
    handed_in(tmp_path, graded=["ada/2_1", "ben/2_1"], failed=["ada/2_2", "ben/2_2"])
    (tmp_path / "autograded/ada/2_2").mkdir()  # an empty folder is no grade either
    lines = TWO_LESSONS.splitlines(keepends=True)
    (tmp_path / "grades.csv").write_text(TWO_LESSONS)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/grades.csv").write_text("".join([lines[0], lines[4].replace(",8.0,1.0,7.0,", ",6.0,0.0,6.0,")]))
    paths = [str(path) for path in (tmp_path / "grades.csv", tmp_path / "alone/grades.csv")]
    assert main([*paths, "--for", "moodle", "--to", str(tmp_path / "out.csv")]) == 0
    assert "no grade, left empty: ada 2_2: " in capsys.readouterr().out
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row[3:] for row in rows[1:]] == [["ada", "5", ""], ["ben", "2.5", "6"]]


UNUSABLE = {
    "empty": ("", "no column assignment, student_id"),
    "another table": ("a,b\n1,2\n", "is it what `nbgrader export` writes?"),
    "heading alone": (f"{HEADING}\n", "no grades are in there"),
    "comma in a name": (
        f"{HEADING}\n2_1,,,ada,Lovelace, Lady,Ada,a@b,5,0,5,6\n",
        "line 2: 12 values under 11 headings",
    ),
    "cut short": (TWO_LESSONS[:-12], "line 5: 9 values"),
    "no number": (TWO_LESSONS.replace(",5.0,6.0", ",many,6.0"), "'many' is no number of points"),
    "other points": (TWO_LESSONS + "2_1,,,ada,,,,4,0,4,6\n", "ada has other points for 2_1 above"),
    "other sum": (TWO_LESSONS + "2_1,,,eve,,,,4,0,4,9\n", "2_1 has 9 points here and 6 above"),
    "no text": (b"\xff\xfe\x00", "codec can't decode"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_trusted_is_named_and_nothing_is_written(name, convert):
    text, words = UNUSABLE[name]
    status, said, rows = convert("canvas", text)
    assert status == 1 and said.startswith("nothing written: ") and words in said and rows is None


def test_a_file_that_is_not_there_and_a_place_where_nothing_can_be_written_are_named(tmp_path, capsys):
    assert main([str(tmp_path / "grades.csv"), "--for", "moodle"]) == 1
    assert "grades.csv: No such file or directory" in capsys.readouterr().out
    (tmp_path / "grades.csv").write_text(TWO_LESSONS)
    assert main([str(tmp_path / "grades.csv"), "--for", "moodle", "--to", str(tmp_path / "gone" / "out.csv")]) == 1
    assert capsys.readouterr().out.startswith("nothing written: ")
