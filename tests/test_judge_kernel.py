"""What becomes of a kernel under guard: right ones run, and whatever a wrong one does is a sentence."""

import os
import subprocess
import sys

import pytest
from kernels import changed, kernel

from pagedkv.course.judge import child, compiled, guarded, limit
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.compiled import compile_ahead
from pagedkv.course.judge.exercise import Exercise
from pagedkv.course.judge.kernel import Case, Task, at_the_far_end, kernel_parts, try_kernel
from pagedkv.course.judge.memory import Fault

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

SCALE = """
def scale(x, out, n, factor, LANES: tl.constexpr):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = lane < n
    y = factor * tl.load(x + lane, mask=inside)
    tl.store(out + lane, y, mask=inside)
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A machine that does other things as well may take its time."""
    monkeypatch.setattr(limit, "SECONDS", 60)


def arguments(n: int = 10) -> dict:
    return {"x": torch.arange(float(n)), "out": torch.full((n,), -7.0), "n": n, "factor": 2.0, "LANES": 4}


def launch(*changes, grid=(3,), names=(), **more):
    return guarded.run(kernel(changed(SCALE, *changes), **dict(names)), grid, arguments() | more, ("out",))


def test_a_right_kernel_gives_its_outputs_and_leaves_the_callers_tensors():
    given = arguments()
    ran = guarded.run(kernel(SCALE), (3,), given, ("out",))
    assert ran.outputs["out"].tolist() == [2.0 * n for n in range(10)] and ran.written["out"].all()
    assert given["out"].tolist() == [-7.0] * 10 and list(ran.outputs) == ["out"]


@pytest.mark.parametrize("grid", [(0,), (3,), (4,), (40,), (3, 1), (3, 1, 1)])
def test_grids_that_are_too_large_are_right_where_masks_hold(grid):
    assert launch(grid=grid).written["out"].sum() == (10 if grid[0] else 0)


def test_what_a_kernel_prints_comes_back():
    printed = launch(("inside = lane", "print('lanes', lane); inside = lane")).printed
    assert printed.splitlines()[0] == "lanes [0 1 2 3]"


LINE = "inside = lane < n"


def test_a_kernel_with_a_comparison_that_an_and_pulls_apart_is_told_so(capsys):
    for mask in ("lane < n & lane >= 0", "(lane < n & lane >= 0)", "0 <= lane & lane < n"):
        apart = kernel(changed(SCALE, (LINE, f"inside = {mask}"), (", mask=inside)\n    tl", ")\n    tl")))
        assert not try_kernel(apart, (3,), **arguments())
        assert capsys.readouterr().out.startswith("in line 4 of its cell `&` binds closer than the comparison")
    for mask in ("(lane < n) & (lane >= 0)", "(lane < n) & ((lane & 1) == 0)", "lane < (n & 15)"):
        whole = kernel(changed(SCALE, (LINE, f"inside = {mask}"), (", mask=inside)\n    tl", ")\n    tl")))
        try_kernel(whole, (3,), **arguments())
        assert "reads element 10 of `x`" in capsys.readouterr().out


def test_a_tensor_at_the_far_end_of_a_larger_one_shows_an_offset_of_32_bits():
    source = """
def pick(cache, ids, out, ROW: tl.constexpr):
    row = tl.load(ids){}
    tl.store(out, tl.load(cache + row * ROW + 1))
"""
    given = {"cache": torch.arange(8.0).reshape(2, 4), "ids": torch.tensor([1], dtype=torch.int32), "ROW": 4}
    given |= {"out": torch.zeros(1)}
    case = at_the_far_end(given, ("cache",), "ids", 4, "far")
    assert 4 * case.ids["ids"].item() > 3 * 2**31 and case.far == {"cache": 4 * (case.ids["ids"].item() - 1)}
    handed = given | case.ids
    assert guarded.run(kernel(source.format(".to(tl.int64)")), (1,), handed, ("out",), case.far).outputs["out"] == 5
    with pytest.raises(Fault, match="reads far from `cache`"):
        guarded.run(kernel(source.format("")), (1,), handed, ("out",), case.far)
    early = kernel(source.format(".to(tl.int64) - 100"))  # in the part that is not there
    assert guarded.run(early, (1,), handed, ("out",), case.far).outputs["out"].isnan()
    with pytest.raises(Fault, match="reads row -"):
        guarded.run(kernel(source.format(" * 0 - 1")), (1,), handed, ("out",), case.far)


ELSEWHERE = {
    "load without a mask": ("lane, mask=inside)\n    tl", "lane)\n    tl"),
    "store without a mask": (", y, mask=inside", ", y"),
    "one lane too many": ("lane < n", "lane <= n"),
    "in front": ("tl.program_id(0) *", "(tl.program_id(0) - 1) *"),
    "far in front": ("x + lane,", "x + lane - 123456789,"),
    "farther than int32": ("x + lane,", "x + lane + (n.to(tl.int64) << 40),"),
    "by the other tensor": ("x + lane,", "out + lane + 1000,"),
    "no pointer": ("x + lane,", "(lane + 64).to(tl.int64).to(tl.pointer_type(tl.float32)),"),
    "writes its input": ("store(out", "store(x"),
    "a race": ("store(out + lane, y", "store(out + lane % 4, y"),
    "reads what others write": ("load(x + lane,", "load(out + tl.minimum(lane, 1),"),
    "two lanes": ("store(out + lane, y", "store(out + lane // 2, y"),
    "an atomic": ("tl.store(out + lane, y, mask=inside)", "tl.atomic_add(out + lane, y, mask=inside)"),
    "another size": ("x + lane,", "x.to(tl.pointer_type(tl.float64)) + lane,"),
}
SAID = {
    "load without a mask": "in line 5 of its cell, program 2 reads element 10 of `x`, which has elements 0 to 9",
    "store without a mask": "in line 6 of its cell, program 2 writes element 10 of `out`, which has elements 0 to 9",
    "one lane too many": "program 2 reads element 10 of `x`",
    "in front": "program 0 reads element -4 of `x`",
    "far in front": "program 0 reads element -123,456,789 of `x`",
    "farther than int32": "program 0 reads element 10,995,116,277,760 of `x`",
    "by the other tensor": "reads element 1,000 of `out`",
    "no pointer": "reads at an address that belongs to no tensor",
    "writes its input": "program 0 writes into `x`, which it is only to read",
    "a race": "program 1 overwrites what another has written to `out`",
    "reads what others write": "program 1 reads what another program writes to `out`",
    "two lanes": "writes two different numbers to one element of `out`",
    "an atomic": "in line 6 of its cell: atomic operations are not judged here",
    "another size": "reads `x` as numbers of another size",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_bad_address_is_a_sentence_with_program_line_and_element(name):
    with pytest.raises(Fault) as caught:
        launch(ELSEWHERE[name])
    assert SAID[name] in str(caught.value)
    assert not any(c.isdigit() for c in caught.value.plain.replace("in line 5", "").replace("in line 6", ""))


def test_rows_are_named_and_what_lies_between_them_is_not_the_tensors():
    row = "def row(x, out, r, at):\n    tl.store(out, tl.load(x + r * 4 + at))"
    wide = torch.arange(24.0).reshape(3, 8)[:, 2:6]
    given = {"x": wide, "out": torch.zeros(1), "r": 2, "at": 3}
    for r, at, said in (
        (3, 0, "reads between two rows of `x`, which are 8 apart (element 12)"),
        (6, 0, "reads row 3 of `x`, which has rows 0 to 2 (element 24)"),
        (-1, 0, "reads row -1 of `x`, which has rows 0 to 2 (element -4)"),
    ):
        with pytest.raises(Fault, match="program 0") as caught:
            guarded.run(kernel(row), (1,), given | {"r": r, "at": at})
        assert said in str(caught.value)
    right = kernel(row.replace("r * 4", "r * 8"))
    assert guarded.run(right, (1,), given).outputs["out"].item() == wide[2, 3]


def test_hidden_lanes_hold_nan_and_a_whole_number_that_leads_nowhere():
    peek = "def peek(x, i, out, LANES: tl.constexpr):\n    lane = tl.arange(0, LANES)\n    "
    given = {"x": torch.ones(4), "i": torch.zeros(4, dtype=torch.int32), "out": torch.zeros(8), "LANES": 8}
    ran = guarded.run(kernel(peek + "tl.store(out + lane, tl.load(x + lane, mask=lane < 4))"), (1,), given)
    assert ran.outputs["out"].isnan().tolist() == [False] * 4 + [True] * 4
    with pytest.raises(Fault, match="reads element 100,000,000 of `x`"):
        guarded.run(kernel(peek + "tl.load(x + tl.load(i + lane, mask=lane < 4))"), (1,), given)
    zero = "tl.store(out, tl.load(x, mask=LANES < 4, other=0.0))"
    assert guarded.run(kernel(peek + zero), (1,), given).outputs["out"][0] == 0.0


def test_a_mask_may_join_a_block_and_a_number_and_comparisons_may_be_chained():
    for mask in ("(lane < n) & (n >= 0)", "(n >= 0) & (lane < n)", "0 <= lane < n"):
        assert launch(("lane < n", mask)).written["out"].all()


RAISES = {
    "if": (f"{LINE}\n    if inside:\n        pass", "in line 5 of its cell: `if`, `while`, `and`"),
    "and": ("inside = (lane < n) and (lane >= 0)", "in line 4 of its cell: `if`, `while`, `and`"),
    "arange of 3": (f"{LINE}\n    tl.arange(0, 3)", "in line 5 of its cell: tl.arange counts to a power of two"),
    "no constexpr": (f"{LINE}\n    tl.arange(0, n)", "in line 5 of its cell: the size of a block must be known"),
    "walks": (f"{LINE}\n    for one in lane:\n        pass", "in line 5 of its cell: a block has no elements to pick"),
    "picks": (f"{LINE}\n    lane[1]", "a block has no elements to pick"),
    "assigns": (f"{LINE}\n    lane[1] = 2", "a block has no elements to pick"),
    "shapes": ("inside = (lane < n)[:, None]", "in line 6 of its cell: blocks of these shapes do not fit"),
    "addresses": (f"{LINE}\n    tl.store(out + lane, x + lane)", "that stores addresses"),
    "torch": (f"{LINE}\n    torch.exp(lane)", "inside a kernel only tl's functions"),
    "a name": (f"{LINE}\n    missing", "raises NameError in line 5 of its cell (name 'missing' is not defined)"),
    "killed": (f"{LINE}\n    import os; os.kill(os.getpid(), 11)", "it ended the process that ran it (SIGSEGV)"),
    "leaves": (f"{LINE}\n    import os; os._exit(3)", "it ended the process that ran it (code 3)"),
}


@pytest.mark.parametrize("name", RAISES)
def test_what_a_kernel_raises_is_a_sentence(name):
    line, said = RAISES[name]
    with pytest.raises(Wrong) as caught:
        launch(("inside = lane < n", line))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"grid": 3}, "a grid is a tuple"),
        ({"grid": (3.0,)}, "a grid is a tuple"),
        ({"grid": (1, 1, 1, 1)}, "a grid is a tuple"),
        ({"x": [1.0]}, "`x` is a list; a kernel takes tensors"),
        ({"y": 1}, "the kernel's arguments are x, out, n, factor, LANES, and it is given"),
    ],
)
def test_a_launch_that_cannot_begin_is_a_sentence(change, said):
    with pytest.raises(Wrong, match=said):
        launch(**change)


def test_what_is_no_kernel_is_called_by_its_kind():
    with pytest.raises(Wrong, match="a function under @triton.jit, not a function"):
        guarded.run(lambda x: x, (1,), {})


def test_an_endless_loop_is_ended(monkeypatch):
    monkeypatch.setattr(limit, "SECONDS", 0.5)
    with pytest.raises(limit.TooLong):
        launch((LINE, f"{LINE}\n    while True:\n        pass"))


def test_a_helper_under_jit_is_run_and_compiled_too():
    helper = "def twice(y):\n    return 2 * y\n\n@triton.jit"
    twice = kernel(helper + changed(SCALE, ("factor * tl", "twice(factor) * tl")))
    assert guarded.run(twice, (3,), arguments(), ("out",)).outputs["out"][1] == 4.0
    assert ".target sm_90" in compile_ahead(twice, arguments()).ptx


def test_an_error_that_cannot_be_handed_over_is_named():
    class Odd(Exception):
        pass

    def fails():
        raise Odd

    with pytest.raises(Wrong, match="it raises Odd"):
        child.in_child(fails)
    assert child.in_child(os.getpid) != os.getpid()


# Compiled ahead


def compiles(*changes, **names):
    return compile_ahead(kernel(changed(SCALE, *changes), **names), arguments())


def test_a_right_kernel_compiles_for_a_gpu_that_is_not_there():
    assert "ld.global" in compiles().ptx


REFUSED = {
    "return": (f"{LINE}\n    return lane", "refuses it: a kernel returns nothing"),
    "break": (f"{LINE}\n    for i in range(n):\n        break", "line 6 of its cell: the compiler knows no `break`"),
    "int first": (f"{LINE}\n    s = 0\n    for i in range(n):\n        s += 0.5", "(here s starts as a whole number)"),
    "a global": (f"{LINE}\n    lane += OFFSET", "line 5 of its cell: the compiler sees no global variable of Python"),
    "a branch": (f"{LINE}\n    if n > 3:\n        extra = 0\n    lane += extra", "line 7 of its cell: extra is not"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_interpreter_forgives_and_the_compiler_does_not(name):
    line, said = REFUSED[name]
    assert launch((LINE, line), names={"OFFSET": 0}) is not None
    with pytest.raises(Fault, match="it is right in the interpreter, and the compiler for a GPU refuses") as caught:
        compiles((LINE, line), OFFSET=0)
    assert said in str(caught.value)


def test_a_tool_that_is_missing_is_not_the_kernels_fault(monkeypatch):
    for said in (None, {"error": "read-only", "line": None, "function": "", "in_kernel": False}):
        monkeypatch.setattr(compiled, "_asked", lambda request, said=said: said)
        assert compiles() is None


def test_a_kernel_without_source_is_not_compiled():
    lost = kernel(SCALE)
    lost.fn.__code__ = lost.fn.__code__.replace(co_filename="<nowhere>")
    with pytest.raises(Fault, match="its source cannot be read"):
        compile_ahead(lost, arguments())


def test_the_compiler_is_asked_in_a_process_without_torch():
    asked = f"import sys, {compiled.__name__}; sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked]).returncode == 0


# What the lesson uses


def test_try_kernel_fills_its_tensors_or_says_one_sentence(capsys):
    given = arguments()
    assert try_kernel(kernel(SCALE), (3,), **given)
    assert given["out"].tolist() == [2.0 * n for n in range(10)] and capsys.readouterr().out == ""
    given = arguments()
    assert not try_kernel(kernel(changed(SCALE, (", y, mask=inside", ", y"))), (3,), **given)
    assert given["out"].tolist() == [-7.0] * 10
    assert capsys.readouterr().out.endswith("program 2 writes element 10 of `out`, which has elements 0 to 9.\n")


def test_try_kernel_ends_an_endless_loop(monkeypatch, capsys):
    monkeypatch.setattr(limit, "SECONDS", 0.5)
    assert not try_kernel(kernel(changed(SCALE, (LINE, f"{LINE}\n    while True:\n        pass"))), (1,), **arguments())
    assert "has not returned after 0.5 seconds" in capsys.readouterr().out


def test_without_triton_nothing_is_run(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "triton", None)
    assert not try_kernel(None, (1,))
    assert capsys.readouterr().out == "not run: Triton (Linux) is not installed here\n"


def scaled(given, by=1.0):
    return {"out": given["x"] * given["factor"] * by}


TASK = Task(
    lambda given: (-(-given["n"] // given["LANES"]),),
    scaled,
    mistakes=((lambda given: scaled(given, 2), "the factor counts twice"),),
    hints={("reads", "x", "behind"): "mask the load", ("missing", "out"): "where do programs begin?"},
)
PARTS = kernel_parts(
    "scaling", TASK, lambda: Case(arguments()), lambda draw: [Case(arguments(draw.randint(5, 9)), "n below 10")]
)
SCALING = Exercise("0.0-scale", "scale", PARTS, needs="triton", in_order=True)

VERDICTS = {
    (): ["ok       the case of the text", "ok       scaling: drawn", "ok       compiled for a Hopper GPU"],
    (("lane, mask=inside)\n    tl", "lane)\n    tl"),): ["0 to 9: mask the load.", "not judged  ", "not judged  "],
    (("factor * tl", "2 * factor * tl"),): ["text: the factor counts twice.", "not judged  ", "not judged  "],
    (("tl.program_id(0) *", "0 *"),): ["element 4 of `out` is not written: where do programs", "not judged", "not"],
    (("factor * tl", "n / n / 0. * tl"),): ["element 0 of `out` has NaN or infinity.", "not judged", "not judged"],
    (("factor * tl", "(factor + (n < 10)) * tl"),): ["ok  ", "with n below 10, part of `out` is not right.", "not"],
    ((LINE, f"{LINE}\n    return lane"),): ["not yet  the case of the text: element 0 of `out` is not", "not", "not"],
    ((LINE, f"{LINE}\n    s = 0\n    for i in range(n):\n        s += 0.5"),): ["ok  ", "ok  ", "start it at 0.0"],
}


@pytest.mark.parametrize("changes", VERDICTS)
def test_a_check_says_the_first_failure_only(changes, monkeypatch, capsys):
    from pagedkv.course.judge import check as judged

    monkeypatch.setattr(judged, "find", lambda name: SCALING)
    result = judged.check("0.0-scale", kernel(changed(SCALE, *changes)))
    title, *lines, points = capsys.readouterr().out.splitlines()
    assert [one for one, words in zip(lines, VERDICTS[changes], strict=True) if words not in one] == []
    assert result.points == sum("ok  " in line for line in lines)


def test_a_kernel_whose_body_is_missing_is_not_attempted(monkeypatch, capsys):
    from pagedkv.course.judge import check as judged

    monkeypatch.setattr(judged, "find", lambda name: SCALING)
    assert judged.check("0.0-scale", kernel(SCALE[: SCALE.index("lane =")] + "...")).points == 0
    assert "not attempted yet" in capsys.readouterr().out
