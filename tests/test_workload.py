import json
import re
from pathlib import Path

import numpy as np
import pytest

from pagedkv.simulation.arena import Arena
from pagedkv.simulation.policies import MaxLength
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import WORKLOADS, Request, length_table, load_trace, sample_requests

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def lengths(requests):
    return np.array([[r.prompt_tokens, r.output_tokens] for r in requests]).T


@pytest.mark.parametrize("name", WORKLOADS)
def test_means_come_out_within_three_percent(name):
    table = length_table(name)
    for part, drawn in zip(("prompt", "output"), lengths(sample_requests(name, 40_000)), strict=True):
        assert drawn.min() >= 1
        assert drawn.mean() == pytest.approx(table[part]["mean"], rel=0.03), part


@pytest.mark.parametrize("name", [name for name in WORKLOADS if not name.startswith("paper")])
def test_quantiles_come_out_as_in_the_table(name):
    shares = json.loads(Path(length_table.__code__.co_filename).with_name("lengths.json").read_text())["p"]
    for part, drawn in zip(("prompt", "output"), lengths(sample_requests(name, 40_000)), strict=True):
        quantiles = length_table(name)[part]["quantiles"]
        assert np.all(np.diff(quantiles) >= 0)
        assert quantiles[0] <= drawn.min() <= drawn.max() <= quantiles[-1]
        for share in (0.1, 0.5, 0.9):
            expected = quantiles[shares.index(share)]
            below, upto = (drawn < 0.98 * expected).mean(), (drawn <= 1.02 * expected).mean()
            assert below - 0.01 <= share <= upto + 0.01


@pytest.mark.parametrize(("name", "ratio"), [("paper-sharegpt", 598), ("paper-alpaca", 123)])
def test_the_spread_of_the_fitted_outputs(name, ratio):
    prompts, outputs = lengths(sample_requests(name, 40_000))
    assert (outputs**2).mean() / outputs.mean() == pytest.approx(ratio, rel=0.04)
    assert (prompts + outputs).max() <= 2048


def test_every_table_states_its_source():
    for name in WORKLOADS:
        assert len(length_table(name)["source"]) > 20


def test_a_seed_fixes_the_requests():
    assert sample_requests("azure-conv", 50, rate=2, seed=3) == sample_requests("azure-conv", 50, rate=2, seed=3)
    assert sample_requests("azure-conv", 50, seed=3) != sample_requests("azure-conv", 50, seed=4)


def test_without_a_rate_all_wait_at_the_start_and_with_one_gaps_are_poisson():
    assert {r.arrival_s for r in sample_requests("sharegpt", 100)} == {0.0}
    arrivals = np.array([r.arrival_s for r in sample_requests("sharegpt", 20_000, rate=4)])
    gaps = np.diff(arrivals)
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(1 / 4, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.03)
    assert [r.request_id for r in sample_requests("sharegpt", 3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shakespeare", 5), "name must be one of 'paper-sharegpt', .*not 'shakespeare'"),
        ((None, 5), "name must be one of"),
        (("sharegpt", 0), "n must be .*at least 1.*not 0"),
        (("sharegpt", 2.0), "n must be .*not 2.0"),
        (("sharegpt", True), "n must be .*not True"),
        (("sharegpt", 10**12), "n must be .*at most 10000000, not 1000000000000"),
        (("sharegpt", 5, 0), "rate must be a finite number above 0, not 0"),
        (("sharegpt", 5, -1.0), "rate must be"),
        (("sharegpt", 5, float("nan")), "rate must be .*nan"),
        (("sharegpt", 5, float("inf")), "rate must be .*inf"),
        (("sharegpt", 5, "2"), "rate must be .*'2'"),
        (("sharegpt", 5, 1.0, -1), "seed must be"),
        (("sharegpt", 5, 1.0, 0.5), "seed must be"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sample_requests(*arguments)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", -1),
        ("request_id", 0.5),
        ("arrival_s", -0.1),
        ("arrival_s", float("nan")),
        ("arrival_s", 1e10),
        ("arrival_s", "now"),
        ("prompt_tokens", 0),
        ("prompt_tokens", True),
        ("prompt_tokens", 10**20),
        ("output_tokens", -1),
        ("output_tokens", 1.0),
    ],
)
def test_a_bad_request_names_its_field(field, value):
    good = {"request_id": 0, "arrival_s": 0.0, "prompt_tokens": 1, "output_tokens": 0}
    with pytest.raises((ValueError, TypeError), match=f"{field} must be"):
        Request(**(good | {field: value}))


def write(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_an_azure_trace(tmp_path):
    path = write(tmp_path, AZURE + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n")
    assert load_trace(path) == [Request(0, 0.0, 374, 44), Request(1, 4.314579, 396, 109)]
    assert load_trace(str(path)) == load_trace(path)


def test_columns_are_found_by_name_and_a_byte_order_mark_does_no_harm(tmp_path):
    path = write(
        tmp_path, "\ufeffGeneratedTokens, TIMESTAMP ,Kind,ContextTokens\r\n7,2023-11-16 18:15:46,chat,300\r\n\r\n"
    )
    assert load_trace(path) == [Request(0, 0.0, 300, 7)]


def test_quoted_cells_are_read(tmp_path):
    path = write(
        tmp_path,
        '"TIMESTAMP","ContextTokens","GeneratedTokens","Kind"\n"2023-11-16 18:15:46","374","44","chat, long"\n',
    )
    assert load_trace(path) == [Request(0, 0.0, 374, 44)]


def test_a_time_zone_that_is_stated_counts(tmp_path):
    path = write(tmp_path, AZURE + "2023-10-29 02:59:59+02:00,3,4\n2023-10-29 02:00:01+01:00,3,4\n")
    assert [request.arrival_s for request in load_trace(path)] == [0.0, 2.0]


def test_a_mooncake_trace(tmp_path):
    rows = [
        {"timestamp": 500, "input_length": 40160, "output_length": 6, "hash_ids": [0, 1]},
        {"timestamp": 540, "input_length": 13, "output_length": 1},
    ]
    path = write(tmp_path, "\n".join(map(json.dumps, rows)), "trace.jsonl")
    assert load_trace(path) == [Request(0, 0.0, 40160, 6), Request(1, 0.04, 13, 1)]


ROW = "2023-11-16 18:15:46,374,44\n"
GOOD = '{"timestamp": 0, "input_length": 4, "output_length": 2}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        (AZURE, "a header but no request"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,374\n", "line 1: .*GeneratedTokens is missing"),
        (
            AZURE.replace("TIMESTAMP", "ContextTokens,TIMESTAMP") + "1,2023-11-16 18:15:46,3,4\n",
            "line 1: .*ContextTokens stands there 2 times",
        ),
        (AZURE + "x" * 200_000 + ",374,44\n", "line 2: field larger than field limit"),
        (AZURE + '2023-11-16 18:15:47,"1,374",44\n', "line 2: ContextTokens must be a whole number, not '1,374'"),
        (AZURE + ROW + "2023-11-16 18:15:47,374\n", "line 3: 2 columns, the header has 3"),
        (AZURE + ROW + "2023-11-16 18:15:47,nan,44\n", "line 3: ContextTokens must be a whole number, not 'nan'"),
        (AZURE + ROW + "2023-11-16 18:15:47,374,\n", "line 3: GeneratedTokens must be a whole number, not ''"),
        (AZURE + ROW + "2023-11-16 18:15:47,374,-4\n", "line 3: GeneratedTokens .*'-4'"),
        (AZURE + ROW + "2023-11-16 18:15:47,1.5,4\n", "line 3: ContextTokens .*'1.5'"),
        (AZURE + ROW + "2023-11-16 18:15:47,0,4\n", "line 3: prompt_tokens must be"),
        (AZURE + ROW + "yesterday,374,44\n", "line 3: .*yesterday"),
        (AZURE + ROW + "\n2023-11-16 18:15:45,374,44\n", "line 4: the time goes back by 1 s"),
        ('{"timestamp": 0, "input_length": 4}\n', "line 1: 'output_length' is missing"),
        (GOOD + '{"timestamp": 1,\n', "line 2: must be a JSON object"),
        (GOOD + "[" * 10**5 + "\n", "line 2: must be a JSON object"),
        (GOOD + "[1, 2, 3]\n", "line 2: must be a JSON object"),
        (
            '{"timestamp": NaN, "input_length": 4, "output_length": 2}\n',
            "line 1: timestamp must be a finite number, not nan",
        ),
        ('{"timestamp": "0", "input_length": 4, "output_length": 2}\n', "line 1: timestamp must be .*'0'"),
        ('{"timestamp": 0, "input_length": NaN, "output_length": 2}\n', "line 1: input_length must be"),
        ('{"timestamp": 0, "input_length": true, "output_length": 2}\n', "line 1: input_length must be"),
        ('{"timestamp": 0, "input_length": 4, "output_length": null}\n', "line 1: output_length must be"),
        (GOOD.replace("0", "9") + GOOD, "line 2: the time goes back by 0.009 s"),
    ],
)
def test_a_malformed_trace_names_the_file_and_the_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"trace.csv.*{message}"):
        load_trace(write(tmp_path, text))


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.csv"):
        load_trace(tmp_path / "nowhere.csv")


def test_bytes_that_are_no_text_are_an_error_with_a_line(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_bytes((AZURE + ROW).encode() + b"2023-11-16 18:15:47,\xff\xfe,3\n")
    with pytest.raises(ValueError, match="line 3"):
        load_trace(path)


def test_the_table_says_what_independent_draws_leave_out():
    table = length_table("azure-conv")
    short = [request for request in sample_requests("azure-conv", 20_000) if request.total_tokens <= 2048]
    share = simulate(short, MaxLength(Arena(15728)), 15728).shares()["token_states"]
    assert re.search(r"Drawn from this table: (\d+) %", table["independence"])[1] == f"{100 * share:.0f}"


@pytest.mark.parametrize("path", [None, 3, ["trace.csv"]])
def test_a_trace_needs_a_path(path):
    with pytest.raises(TypeError, match="path must name a file"):
        load_trace(path)
