"""The front page and the documents it leads to say what is true: their links lead somewhere, the minutes are the
lessons', the example runs, the house is drawn as it stands.
"""

import ast
import json
import re
from pathlib import Path

import pytest

from pagedkv.bench.sweep import GOOD, factors
from pagedkv.course.lesson_2_2.pictures import published

ROOT = Path(__file__).parents[1]
NAMES = (
    "README.md", "notebooks/SETUP.md", "pagedkv/course/teaching/README.md", ".github/CONTRIBUTING.md",
    "pagedkv/README.md",
)  # fmt: skip
DOCUMENTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
README, ENGINEER = DOCUMENTS["README.md"], DOCUMENTS["pagedkv/README.md"]


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and JupyterLab make them."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        lines = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        return {title.replace(" ", "-") for title in re.findall(r"^#+ (.*)", lines, re.MULTILINE)}
    titles = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_to_a_file_and_to_a_heading_in_it_and_every_picture_has_words(name):
    links = re.findall(r"(!?)\[([^\]]*)\]\(([^)#]*)#?([^)]*)\)", DOCUMENTS[name])
    assert links
    for picture, words, target, anchor in links:
        if not target.startswith("https://"):
            path = (ROOT / name).parent / target if target else ROOT / name
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), anchor
        assert not picture or len(words) > 40, target


def test_the_front_page_is_short_and_leads_to_every_document():
    assert len(README.split()) < 800
    for name in NAMES[1:]:
        assert f"]({name})" in README


def test_what_a_reader_looks_for_is_two_clicks_away():
    seen, front = {"README.md"}, {"README.md"}
    for _ in range(2):
        links = {
            (Path(name).parent / target).as_posix()
            for name in front & set(NAMES)
            for target in re.findall(r"\]\(([^)#]+)", DOCUMENTS[name])
        }
        front = links - seen
        seen |= front
    code = {f"pagedkv/{name}.py" for name in ("attention/triton/decode", "engine/scheduler", "block_table")}
    lessons = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/*.ipynb")}
    assert code | lessons <= seen
    assert "](#to-grade-with-nbgrader)" in DOCUMENTS["pagedkv/course/teaching/README.md"]


def test_the_words_of_the_pictures_have_their_numbers():
    front = (ROOT / "figures/front.svg").read_text(encoding="utf-8")
    running, shares = (
        re.findall(r">step 2,000: (\d+) running", front),
        re.findall(r">([\d.]+ %) of the slots hold tokens<", front),
    )
    assert f"where {running[0]} requests run and {shares[0]} of the slots hold tokens" in README
    assert f"under paging, where {running[1]} run and {shares[1]} do" in README
    words = published()[1]
    max_length, power_of_two, oracle, paging = (
        " and ".join(pair) for pair in re.findall(r"token states (\d+\.\d) and (\d+\.\d)", words)
    )
    assert f"max-length {max_length} %, power of two {power_of_two}, oracle {oracle}, paging {paging}." in ENGINEER
    *others, paging = re.findall(r"token states [\d.]+ and [\d.]+ \((\d+\.\d)\)", words)
    assert f"With azure-conv's lengths {', '.join(others)} and {paging} %." in ENGINEER
    wastes = re.findall(r"(?:reserved|internal|free) (\d+\.\d) and (\d+\.\d)", words)
    assert len(wastes) == 9 and all(abs(float(one) - float(other)) < 3 for one, other in wastes)


def test_the_minutes_are_those_of_the_lessons():
    rows = re.findall(r"\[\d[^]]*\]\((notebooks/\S*?)\) \((\d+)\)", README)
    lessons = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/*.ipynb")} - {
        "notebooks/glossary.ipynb"
    }
    assert {path for path, _ in rows} == lessons
    for path, minutes in rows:
        first = "".join(json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"][0]["source"])
        assert f"{minutes} minutes" in first, path


def test_the_example_gives_attention_over_the_tokens_that_were_written():
    torch = pytest.importorskip("torch")
    names = {}
    exec(re.search(r"```python\n(.*?)```", ENGINEER, re.DOTALL)[1], names)
    k, v, q = (names[name].double() for name in "kvq")
    k, v = (x.repeat_interleave(4, dim=1).transpose(0, 1) for x in (k, v))  # [32, 50, 128]
    expected = torch.softmax(k @ q[0, :, :, None] / 128**0.5, dim=1).transpose(1, 2) @ v
    torch.testing.assert_close(names["out"][0].double(), expected[:, 0], atol=2e-3, rtol=2e-3)


def test_the_engine_is_built_and_asked_as_it_is_said():
    pytest.importorskip("torch")
    from pagedkv.engine import engine, plays

    call = re.search(r"`pagedkv\.engine\.engine\.(build\(.*?\]\]\))`", ENGINEER)[1]
    (tokens,) = eval(call, {"build": engine.build, "model": plays.load()[0]})
    assert len(tokens) == 16


def test_the_kernels_numbers_are_those_of_the_record():
    record = json.loads((ROOT / "figures/data/h200.json").read_text(encoding="utf-8"))
    results = {entry["case"]: entry["results"] for entry in record["cases"]}
    mean = record["summary"]
    faster = (
        f"{mean['times_faster_than_flashinfer']:.2f} times as fast as FlashInfer "
        f"{record['provenance']['flashinfer-python']}"
    )
    assert faster in ENGINEER and f"{faster} on an {record['provenance']['gpu']}," in README
    assert f"With a plan made from the lengths {mean['planned_times_faster_than_flashinfer']:.2f}:" in ENGINEER
    slower = [results[case]["pagedkv"]["us"] / results[case]["pagedkv, planned"]["us"] for case in "eg"]
    assert f"were {slower[0]:.2f} and {slower[1]:.2f} times as fast with one" in ENGINEER
    assert f"{mean['times_faster_than_contiguous_sdpa']:.2f} times as fast as PyTorch" in ENGINEER
    decode = [
        entry["results"]
        for entry in record["cases"]
        if entry["kind"] == "decode" and "SDPA, contiguous" in entry["results"]
    ]
    ratios = [timings["SDPA, contiguous"]["us"] / timings["pagedkv"]["us"] for timings in decode]
    assert f"from {min(ratios):.2f} to {max(ratios):.2f} by case" in ENGINEER
    fa2, ours, fa3 = rates = [
        results["p"][name]["tflop_s"] for name in ("FlashInfer, FA2", "pagedkv", "FlashInfer, FA3")
    ]
    assert (
        f"reaches {ours:.0f} TFLOP/s, between FlashInfer's FA2 ({fa2:.0f}) and FA3 ({fa3:.0f})" in ENGINEER
        and rates == sorted(rates)
    )
    every = [entry["results"] for entry in record["cases"] if entry["kind"] == "decode"]
    shares = [
        100 * max(timing["share"] for name, timing in timings.items() if name.startswith("pagedkv"))
        for timings in every
    ]
    assert f"each of {len(every)} decode cases" in ENGINEER
    assert f"This package reaches {min(shares):.0f} to {max(shares):.0f} % of it" in ENGINEER
    for timings in every:
        assert timings["pagedkv"]["us"] < min(
            timing["us"] for name, timing in timings.items() if name.startswith("FlashInfer")
        )
    host = {"pagedkv": [], "FlashInfer": []}
    for timings in every:
        for name, timing in timings.items():
            if name.split(",")[0] in host and timing.get("host_us"):
                host[name.split(",")[0]].append(timing["host_us"])
    ranges = {name: f"{min(us):.0f} to {max(us):.0f}" for name, us in host.items()}
    assert f"{ranges['pagedkv']} µs against {ranges['FlashInfer']}" in ENGINEER
    assert f"{record['provenance']['gpu']}, {record['provenance']['date'][:10]}" in ENGINEER


def test_the_random_shapes_are_those_of_the_records():
    records = {
        name: json.loads((ROOT / f"figures/data/{name}_h200.json").read_text(encoding="utf-8"))
        for name in ("sweep", "prefill")
    }
    decode, prefill = (record["summary"] for record in records.values())
    words, paged, every = " ".join(ENGINEER.split()), decode["against paged peers"], decode["against all"]
    at = f"at {paged['good']} of {paged['of']}"
    behind = {case for case, factor in factors(records["sweep"]["cases"], True).items() if factor < GOOD}
    dims = [record["head_dim"] for record in records["sweep"]["cases"] if record["case"] in behind]
    assert f"; {dims.count(64)} of the {len(dims)} others have head_dim 64." in words
    assert f"{at}, {paged['least']:.2f} at worst, {paged['mean']:.2f} in the mean" in words
    assert f"at {every['good']}, {every['least']:.2f} at worst" in words and not decode["wrong"]
    assert f"at least 0.97 times as fast as every paged kernel {at} random shapes" in " ".join(README.split())
    fa2 = prefill["against FlashInfer, FA2"]
    assert f"as FA2 at {fa2['good']} of {fa2['of']}, {fa2['mean']:.2f} in the mean" in words and not prefill["wrong"]


def test_the_engines_numbers_are_those_of_the_record():
    record = json.loads((ROOT / "figures/data/engine_h200.json").read_text(encoding="utf-8"))
    rows, words = record["engine"]["decode"], " ".join(ENGINEER.split())

    def listed(form: str, *names: str) -> str:
        *most, last = [
            form.format(row[names[0]] / (row[names[1]] if names[1:] else 1)) for row in rows if names[0] in row
        ]
        return f"{', '.join(most)} and {last}"

    assert f"and {rows[0]['length']:,} tokens a request" in words
    assert f"takes {listed('{:.2f}', 'replay_ms')} ms for {listed('{:.0f}', 'requests')} requests" in words
    assert f"which is {listed('{:.2f}', 'replay_ms', 'bound_ms')} times" in words
    assert f"makes {listed('{:,.0f}', 'tokens_per_s')} tokens per second" in words
    assert f"made {listed('{:,.0f}', 'transformers_generate_tokens_per_s')} of them, and its continuous" in words
    assert f"batching {listed('{:,.0f}', 'transformers_tokens_per_s')} for 1 and 64" in words
    assert ["transformers_tokens_per_s" in row for row in rows] == [True, True, False]
    assert f"by transformers {record['provenance']['transformers']}" in words


def recorded(record: dict, names: list[str]) -> str:
    """What is said of the notebooks' record: those of `names` are named of which an edition is younger, or differed."""
    as_stored = {entry["notebook"] for entry in record["notebooks"] if entry["as_stored"]}
    others = ", ".join(sorted({Path(name).stem for name in set(names) - as_stored}))
    but_for = f", but for {others}," if others else ""
    return (
        f"The notebooks as they stood on {record['provenance']['date'][:10]}{but_for} gave on such a GPU what is stored"
    )


def test_it_is_said_which_notebooks_were_run_on_the_gpu_of_the_record():
    bench, notebooks = (
        json.loads((ROOT / f"figures/data/{name}.json").read_text(encoding="utf-8"))
        for name in ("h200", "notebooks_h200")
    )
    assert notebooks["provenance"]["gpu"] == bench["provenance"]["gpu"]
    paths = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("notebooks/solutions/*.ipynb")]
    if not any(path.parent.name == "solutions" for path in paths):
        pytest.skip("what is handed out has no solutions")
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    assert recorded(notebooks, names) in " ".join(ENGINEER.split())
    for entry in filter(lambda entry: entry["as_stored"], notebooks["notebooks"]):
        assert (entry["gpu_bytes"] > 0) == Path(entry["notebook"]).name.startswith(("4_3", "4_4", "4_5", "5_1")), entry


def test_a_notebook_that_the_record_lacks_or_that_differed_is_named():
    entries = [{"notebook": f"notebooks/{name}.ipynb", "as_stored": name != "b"} for name in "ab"]
    record = {"notebooks": entries, "provenance": {"date": "2026-11-29 20:00 UTC"}}
    names = [f"notebooks/{name}.ipynb" for name in ("a", "b", "solutions/c")]
    assert ", but for b, c, gave on such a GPU" in recorded(record, names)
    assert "on 2026-11-29 gave on such a GPU" in recorded(record, names[:1])


def test_what_is_called_short_is_as_short_as_that():
    package = ROOT / "pagedkv"
    lines = {
        "(the modules at its top)": sum(
            len(path.read_text(encoding="utf-8").splitlines()) for path in package.glob("*.py")
        ),
        "Triton kernels included": sum(
            len(path.read_text(encoding="utf-8").splitlines()) for path in package.glob("attention/**/*.py")
        ),
    }
    said = dict(
        zip(
            lines,
            map(lambda number: int(number.replace(",", "")), re.findall(r"in about ([\d,]+)", ENGINEER)),
            strict=True,
        )
    )
    assert {name: round(count, -2) for name, count in lines.items()} == said


def code_lines(path: Path) -> int:
    """Lines that are neither blank nor a comment nor part of a docstring."""
    source = path.read_text(encoding="utf-8")
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            docstrings |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(number not in docstrings and bool(line.split("#")[0].strip()) for number, line in lines)


def test_the_engine_is_as_short_as_it_is_said_to_be():
    engine = {path.name: code_lines(path) for path in (ROOT / "pagedkv/engine").glob("*.py")}
    parts = {
        f"{name}.py" for name in "request scheduler window interrupt engine runner graphs batch swap sampler".split()
    }
    assert parts < set(engine) and max(engine.values()) <= 160
    assert 550 <= sum(engine[name] for name in parts) <= 650 and "[an engine](engine/) of about 600 lines" in ENGINEER


def drawn_rooms() -> dict[str, set[str]]:
    """The rooms that the drawing of the house has, each with the words that stand at it."""
    drawing = re.search(r"```\n(pagedkv/ .*?)```", DOCUMENTS[".github/CONTRIBUTING.md"], re.DOTALL)[1]
    rooms, open_folders = {}, []
    for line in drawing.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        if depth < 5:  # else more about the line above
            open_folders = [*open_folders[:depth], *([name.rstrip("/")] if name.endswith("/") else [])]
        rooms.setdefault("/".join(open_folders), set()).update(re.findall(r"\w+", line))
    return rooms


def test_the_house_is_drawn_as_it_stands():
    rooms = drawn_rooms()
    wings = {path.parent for path in ROOT.glob("pagedkv/course/lesson_*/__init__.py")}
    missing = set()
    for path in ROOT.glob("pagedkv/**/*.py"):
        if path.parent not in wings and not path.name.startswith("__"):
            folder = path.parent.relative_to(ROOT)
            room = folder if folder.as_posix() in rooms else folder.parent
            if not {path.stem, *folder.relative_to(room).parts} <= rooms[room.as_posix()]:
                missing.add(path.relative_to(ROOT).as_posix())
    assert missing == set()
    assert {room for room in rooms if "X_Y" not in room and not (ROOT / room).is_dir()} == set()
    tops = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.*"))} - {"build", "dist"}
    assert {top for top in tops if not top.startswith((".", "__")) and not top.endswith(".egg-info")} <= set(rooms)
