"""One hand-in graded alone: what is kept is whole or not there, and what does not end is ended.

nbgrader is played by a script here; tests/test_nbgrader.py asks the real one.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pagedkv.course import autograde

ROOT = Path(__file__).parents[1]
LESSON = "2_1_contiguous_allocation"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="a container runs Linux")
PLAYED = """#!/bin/sh
{}
mkdir -p autograded/ada/2_1 feedback/ada/2_1
echo x > autograded/ada/2_1/{lesson}.ipynb
echo x > feedback/ada/2_1/{lesson}.html
printf 'student_id,score,max_score\\nada,4.0,6.0\\n' > grades.csv
"""


@pytest.fixture
def grade(tmp_path, monkeypatch, capsys):
    """Grades a hand-in with an nbgrader that first runs `script`; returns status, what was said, and what was kept."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setattr(autograde, "SOURCES", tmp_path / "sources")
    for folder in ("bin", "sources", "handin"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / f"notebooks/{LESSON}.ipynb", tmp_path / "sources")

    def run(script="", student="ada", name=LESSON, minutes=1.0, handin=None):
        program, given = tmp_path / "bin/nbgrader", tmp_path / f"handin/{name}.ipynb"
        program.write_text(PLAYED.format(script, lesson=LESSON))
        program.chmod(0o755)
        given.write_text((tmp_path / f"sources/{LESSON}.ipynb").read_text() if handin is None else handin)
        status = autograde.main([str(given), f"--student={student}", f"--to={tmp_path / 'to'}", f"--minutes={minutes}"])
        kept = sorted(path.name for path in (tmp_path / "to").rglob("*") if path.is_file())
        return status, capsys.readouterr().out, kept

    return run


def test_points_are_said_and_three_files_are_kept(grade):
    kept = [f"{LESSON}.html", f"{LESSON}.ipynb", "grades.csv"]
    patient = 'test "$PAGEDKV_SECONDS" = 30 || exit\ncase "$*" in autog*iopub_timeout=120) ;; autog*) exit 1; esac'
    assert grade(patient) == (0, f"ada, {LESSON}: 4 of 6 points\n", kept)


def test_grading_again_replaces_what_was_read_only(grade, tmp_path):
    for _ in range(2):
        assert grade("", minutes=1)[0] == 0
        kept = list((tmp_path / "to/2_1").iterdir())
        assert len(kept) == 3 and all(os.access(path, os.W_OK) for path in kept)
        for path in kept:
            path.chmod(0o444)


def test_an_earlier_grade_is_none_where_grading_again_fails(grade):
    assert "grades.csv" in grade()[2]
    status, _, kept = grade("exit 3")
    assert status == 1 and kept == [f"{LESSON}.html", f"{LESSON}.ipynb"]


def test_what_does_not_end_is_ended_with_all_that_it_has_started(grade, tmp_path):
    begun = time.monotonic()
    status, said, kept = grade(f"sleep 60 & echo $! > {tmp_path}/child; wait", minutes=0.01)
    assert (status, kept) == (1, []) and "did not end in the time" in said and time.monotonic() - begun < 30
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            {"script": "echo '    nbclient.DeadKernelError: Kernel died'; echo bye; exit 3"},
            "with nbclient.DeadKernelError: Kernel died",
        ),
        ({"script": "exit 3"}, "exit status 3"),
        ({"handin": "<html>"}, "is no notebook (NotJSONError)"),
        ({"name": "homework"}, "homework.ipynb is the name of no lesson"),
        ({"student": "../eve"}, "a student's id has no slash"),
    ],
)
def test_what_cannot_be_graded_is_said_in_a_sentence_and_nothing_is_kept(case, words, grade):
    status, said, kept = grade(**case)
    assert (status, kept) == (1, []) and ": not graded: " in said and words in said and said.count("\n") == 1


DOCKER = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *eve*) exit 1;; esac
"""


def test_each_hand_in_has_a_container_without_network_that_can_change_nothing_of_others(tmp_path):
    log = tmp_path / "log"
    (tmp_path / "docker").write_text(DOCKER.format(log=log))
    (tmp_path / "docker").chmod(0o755)
    for place in ("ada/2_1", "ada/2_2 again", "eve", "none"):
        (tmp_path / "submitted" / place).mkdir(parents=True)
    for place in (f"ada/2_1/{LESSON}", "ada/2_2 again/2_2_fragmentation", "eve/5_2_quiz"):
        (tmp_path / f"submitted/{place}.ipynb").touch()
    ran = subprocess.run(
        [ROOT / "pagedkv/course/teaching/grade.sh", "submitted", "graded"],
        cwd=tmp_path, env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert ran.returncode == 1  # eve's was not graded
    calls = sorted(log.read_text().splitlines())
    assert [call.split(" --student ")[1] for call in calls] == [*["ada --to /graded"] * 2, "eve --to /graded"]
    for call in calls:
        for option in ("--rm --network none", "--memory 4g --memory-swap 4g", "--read-only", "--cap-drop ALL"):
            assert option in call
        assert f"--user {os.getuid()}:" in call and "--security-opt no-new-privileges" in call
        student = call.split(" --student ")[1].split()[0]
        assert f"--volume {tmp_path}/graded/{student}:/graded " in call and ".ipynb:ro " in call
    assert sorted(path.name for path in (tmp_path / "graded").rglob("*")) == ["ada", "eve", "none"]
