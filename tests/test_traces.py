"""load_trace on the files that people have: what it reads, what it refuses and why, and what it does not read."""

import codecs
import gzip
import io
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager

import pyarrow
import pytest

from pagedkv.simulation import traces
from pagedkv.simulation.policies import Paged
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.trace_rows import RowReader
from pagedkv.simulation.workload import Request, load_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


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


@pytest.mark.parametrize("path", [None, 3, ["trace.csv"]])
def test_a_trace_needs_a_path(path):
    with pytest.raises(TypeError, match="path must name a file"):
        load_trace(path)


# Forms and wrappings

TWO = [Request(0, 0.0, 374, 44), Request(1, 4.0, 396, 109)]
FORMS = {
    "azure 2023": AZURE + "2023-11-16 18:15:46.0000000,374,44\n2023-11-16 18:15:50.0000000,396,109\n",
    "azure 2024": AZURE + "2024-05-10 00:00:00.009930+00:00,374,44\n2024-05-10 00:00:04.009930+00:00,396,109\n",
    "mooncake": '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [0, 1]}\n'
    '{"timestamp": 4000, "input_length": 396, "output_length": 109, "hash_ids": [0]}\n',
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,374,44,418,Conversation log\n9,GPT-4,396,109,505,API log\n",
    "burstgpt 3": "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,a,1.5,ChatGPT,374,44,418,Conversation log\n9,,,GPT-4,396,109,505,API log\n",
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens,request_id\n0.25,374,44,0\n4.25,396,109,1\n",
    "mooncake as a table": "timestamp,input_length,output_length\n0,374,44\n4000,396,109\n",
    "dates in JSON": '{"TIMESTAMP": "2023-11-16T18:15:46Z", "ContextTokens": 374, "GeneratedTokens": 44}\n'
    '{"TIMESTAMP": "2023-11-16T18:15:50Z", "ContextTokens": 396, "GeneratedTokens": 109}\n',
}
WRAPPED = {
    "gzip": lambda text: gzip.compress(text.encode()),
    "gzip in two parts": lambda text: gzip.compress(text[:60].encode()) + gzip.compress(text[60:].encode()),
    "zstd": lambda text: pyarrow.compress(text.encode(), "zstd", asbytes=True),
    "byte order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16, big end first": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "utf-16, no mark": lambda text: text.encode("utf-16-le"),
    "utf-16-be, no mark": lambda text: text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32"),
    "gzip around utf-16": lambda text: gzip.compress(text.encode("utf-16")),
    "carriage returns and line feeds": lambda text: text.replace("\n", "\r\n").encode(),
    "carriage returns": lambda text: text.replace("\n", "\r").encode(),
    "blank lines": lambda text: b"\n\n" + text.replace("\n", "\n \n").encode() + b"\n\n",
    "no line end at the end": lambda text: text.rstrip().encode(),
}


def slow(self, block, lines):
    return None


def no_slow_reader(self, block, skip_empty):
    raise AssertionError("a good block was read line by line")


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_public_form_is_read_at_once_and_line_by_line_alike(tmp_path, monkeypatch, text):
    path = write(tmp_path, text)
    with monkeypatch.context() as at_once:
        at_once.setattr(RowReader, "_line_by_line", no_slow_reader)
        assert load_trace(path) == TWO
    monkeypatch.setattr(RowReader, "_at_once", slow)
    assert load_trace(path) == TWO


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("form", ["azure 2023", "mooncake"])
def test_every_wrapping_is_opened(tmp_path, form, wrap):
    path = tmp_path / "trace"
    path.write_bytes(wrap(FORMS[form]))
    assert load_trace(path) == TWO
    assert load_trace(path, limit=1) == TWO[:1]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("form", ["azure 2023", "azure 2024", "burstgpt", "vidur"])
def test_the_separator_is_recognised(tmp_path, monkeypatch, form, separator):
    monkeypatch.setattr(RowReader, "_line_by_line", no_slow_reader)
    assert load_trace(write(tmp_path, FORMS[form].replace(",", separator))) == TWO


def test_other_columns_do_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(RowReader, "_line_by_line", no_slow_reader)
    table = 'Kind,TIMESTAMP,ContextTokens,Kind,GeneratedTokens,\n"chat, long",2023-11-16 18:15:46,374,,44,null\n'
    assert load_trace(write(tmp_path, table)) == TWO[:1]
    lines = FORMS["mooncake"].replace("{", '{"hash": "0x10", "text": "\\u00e9 \\n", "more": {"timestamp": null}, ')
    assert load_trace(write(tmp_path, lines)) == TWO


def azure(*stamps):
    return AZURE + "".join(f"{stamp},3,4\n" for stamp in stamps)


def mooncake(*stamps):
    return "".join(f'{{"timestamp": {stamp}, "input_length": 3, "output_length": 4}}\n' for stamp in stamps)


@pytest.mark.parametrize(
    ("text", "arrivals"),
    [
        (
            azure(*(f"2023-11-16 18:15:46.{part}" for part in ("0010000", "0020000", "0090000", "0110005"))),
            [0, 0.001, 0.008, 0.01],
        ),
        (
            azure(*(f"2024-05-10 00:00:{part}+00:00" for part in ("00.009930", "01", "01.500000"))),
            [0, 0.99007, 1.49007],
        ),
        (azure("2024-05-10T00:00:00Z", "2024-05-10T02:00:01+02:00"), [0, 1]),
        (azure("2023-10-29 02:59:59+02:00", "2023-10-29 02:00:01+01:00"), [0, 2]),
        (azure("2024-05-10 00:00:00", "2024-05-10 00:00:01+00:00"), [0, 1]),
        (azure("1969-12-31 23:59:59.9999995", "1970-01-01 00:00:00"), [0, 0.000001]),
        (mooncake(1700000000000, 1700000000250), [0, 0.25]),
        (mooncake(0, 0).replace("}", ', "hash_ids": [18446744073709551615]}'), [0, 0]),
    ],
)
def test_stamps(tmp_path, monkeypatch, text, arrivals):
    path = write(tmp_path, text)
    assert [request.arrival_s for request in load_trace(path)] == arrivals
    monkeypatch.setattr(RowReader, "_at_once", slow)
    assert [request.arrival_s for request in load_trace(path)] == arrivals


@pytest.mark.parametrize(
    ("stamp", "message"),
    [
        ("null", "timestamp must be a finite number, not None"),
        ("NaN", "timestamp must be a finite number, not nan"),
        ('"5"', "timestamp must be a finite number, not '5'"),
        ("1e300", "timestamp must be within 285 years of 0, not 1e\\+300 ms"),
        ("1e308", "timestamp must be within 285 years of 0"),
        ("1e400", "timestamp must be a finite number, not inf"),
        ("2e12", "arrival_s must be a finite number of at least 0 and at most 1e\\+09, not 2000000000.0"),
        ("true", "timestamp must be a finite number, not True"),
    ],
)
def test_a_stamp_that_is_none_names_its_line(tmp_path, stamp, message):
    with pytest.raises(ValueError, match=f"trace.csv, line 2: {message}"):
        load_trace(write(tmp_path, mooncake(0, stamp)))
    with pytest.raises(ValueError, match="line 1: timestamp must be within 285 years of 0, not 1e\\+30 ms"):
        load_trace(write(tmp_path, mooncake("1e30", "1e30")))
    with pytest.raises(ValueError, match="line 2: 'timestamp' is missing"):
        load_trace(write(tmp_path, mooncake(0, 0).replace("0", "9", 1).replace('"timestamp": 0, ', "")))


# What is refused, by what was found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            '[{"timestamp": 0, "input_length": 3, "output_length": 2}]',
            "trace.csv is a JSON array, where one object a line",
        ),
        ('\n [\n {"timestamp": 0}]', "trace.csv is a JSON array"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "is a Git LFS pointer"),
        ("<!DOCTYPE html>\n<html><body>Not found</body></html>", "is an HTML page"),
        ("\n<HTML><head>", "is an HTML page"),
        ('<?xml version="1.0"?>', "is XML or HTML"),
        (b"PK\x03\x04\x14\x00", "is a zip archive"),
        (b"PAR1\x15\x04", "is a Parquet file"),
        (b"\xfd7zXZ\x00\x00", "is an xz file"),
        (b"BZh91AY&SY", "is a bzip2 file"),
        (b"%PDF-1.7\n", "is a PDF"),
        (b"\x00\x01\x02\x03\x00\x00", "is binary data"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "is binary data"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (codecs.BOM_UTF8, "is empty"),
        (gzip.compress(b"<html>", mtime=0), "is an HTML page"),
        ("<html>".encode("utf-16"), "is an HTML page"),
        (
            "A\tB\tC\n1\t2\t3\n",
            "line 1: found tab-separated columns A, B, C: none is a token count; known are TIMESTAMP,",
        ),
        ("a;b\n1;2\n", "line 1: found semicolon-separated columns a, b: none is a token count"),
        ("Lorem ipsum\n", "line 1: found one column, Lorem ipsum: none is a token count"),
        ('{"requests": []}', "line 1: found a JSON object with requests: none is a token count"),
        ("{\n", "line 1: must be a JSON object on one line, not '{'"),
        ("# exported\n" + AZURE, "line 1: found a comment, '# exported'; the first line must be the header"),
        ("2023-11-16 18:15:46,374,44\n", "line 1: found a row of values, '2023.*'; the first line must be the header"),
        (
            "num_prefill_tokens,num_decode_tokens\n3,4\n",
            "line 1: the header must name arrived_at, num_prefill_tokens and num_decode_tokens; arrived_at is missing",
        ),
        (gzip.compress(AZURE.encode() * 999, mtime=0)[:-9], "is a damaged or shortened gzip file"),
        (pyarrow.compress(AZURE.encode() * 999, "zstd", asbytes=True)[:-9], "is a damaged or shortened zstd file"),
    ],
)
def test_a_file_of_another_shape_is_refused_by_what_was_found(tmp_path, content, found):
    path = tmp_path / "trace.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=f"trace.csv.*{found}|{found}"):
        load_trace(path)


def test_two_objects_on_a_line_are_refused(tmp_path):
    first, second = FORMS["mooncake"].splitlines()
    with pytest.raises(ValueError, match="line 2: must be a JSON object on one line"):
        load_trace(write(tmp_path, f"{first}\n{second}{second}\n"))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=f"path must name a trace.*{re.escape(tmp_path.name)} is a folder"):
        load_trace(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": 0}, "limit must be a whole number of at least 1, not 0"),
        ({"limit": True}, "limit must be .*not True"),
        ({"limit": 2.0}, "limit must be .*not 2.0"),
        ({"unit": "us"}, "unit must be one of 's', 'ms', not 'us'"),
        ({"skip_empty": 1}, "skip_empty must be True or False, not 1"),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        load_trace(write(tmp_path, FORMS["mooncake"]), **arguments)


# Units


def arrivals(path, **arguments):
    return [request.arrival_s for request in load_trace(path, **arguments)]


@pytest.mark.parametrize(
    ("stamps", "sign"),
    [
        ([0.0, 0.2, 60], "has fractions, as seconds have"),
        ([1700000000, 1700000060], "counts like the seconds since 1970"),
        (range(200), "would mean more than 500 requests a second"),
    ],
)
def test_milliseconds_that_look_like_seconds_earn_a_word(tmp_path, stamps, sign):
    path = write(tmp_path, mooncake(*stamps))
    with pytest.warns(
        UserWarning, match=f"trace.csv: timestamp is read as milliseconds, but it {sign}.*unit='s'"
    ) as told:
        assert arrivals(path) == pytest.approx([(stamp - stamps[0]) / 1000 for stamp in stamps])
    assert told[0].filename == __file__  # the caller's line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert arrivals(path, unit="ms") == pytest.approx([(stamp - stamps[0]) / 1000 for stamp in stamps])
        assert arrivals(path, unit="s") == pytest.approx([stamp - stamps[0] for stamp in stamps])


def test_milliseconds_that_look_like_milliseconds_earn_none(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_trace(write(tmp_path, mooncake(*[0] * 200)))
        load_trace(write(tmp_path, mooncake(*range(0, 200_000, 300))))
        load_trace(write(tmp_path, mooncake(*range(1_700_000_000_000, 1_700_000_200_000, 1000))))
        load_trace(write(tmp_path, FORMS["vidur"]))


def test_a_unit_holds_for_every_form(tmp_path):
    assert arrivals(write(tmp_path, FORMS["burstgpt"]), unit="ms") == [0, 0.004]
    assert arrivals(write(tmp_path, FORMS["vidur"]), unit="s") == [0, 4]
    numbers = write(tmp_path, azure(7, 9.5))
    assert arrivals(numbers, unit="s") == [0, 2.5]
    with pytest.raises(
        ValueError, match="line 2: TIMESTAMP must be a date .*, not '7'; a column of numbers needs unit="
    ):
        load_trace(numbers)
    with pytest.raises(ValueError, match="line 2: TIMESTAMP must be a number \\(s\\), not '2023"):
        load_trace(write(tmp_path, FORMS["azure 2023"]), unit="s")
    with pytest.raises(ValueError, match="line 2: Timestamp must be a number \\(s\\), not '1_5'"):
        load_trace(write(tmp_path, FORMS["burstgpt"].replace("5,Chat", "1_5,Chat")))
    with pytest.raises(ValueError, match="line 2: Timestamp must be within 285 years of 0, not 1.7e\\+12 s"):
        load_trace(write(tmp_path, FORMS["burstgpt"].replace("5,Chat", "1700000000000,Chat")))


# Rows without tokens


@pytest.mark.parametrize(
    "text",
    [
        AZURE + "2023-11-16 18:15:45,0,7\n2023-11-16 18:15:46,3,0\n2023-11-16 18:15:47,0,0\n2023-11-16 18:15:48,5,6\n",
        "".join(
            json.dumps({"timestamp": time, "input_length": prompt, "output_length": output}) + "\n"
            for time, prompt, output in [(0, 0, 7), (1000, 3, 0), (2000, 0, 0), (3000, 5, 6)]
        ),
    ],
)
def test_rows_without_prompt_tokens_are_refused_or_skipped_and_counted(tmp_path, monkeypatch, text):
    path = write(tmp_path, text)
    for patched in False, True:
        if patched:
            monkeypatch.setattr(RowReader, "_at_once", slow)
        trace = load_trace(path, skip_empty=True)
        assert trace == [Request(0, 0.0, 3, 0), Request(1, 2.0, 5, 6)]
        assert trace.skipped == 2
        assert load_trace(path, skip_empty=True, limit=1) == trace[:1]
        with pytest.raises(ValueError, match="line [12]: prompt_tokens must be at least 1.*skip_empty=True"):
            load_trace(path)


def test_a_trace_of_empty_rows_only_has_no_request(tmp_path):
    with pytest.raises(ValueError, match="a header but no request with prompt tokens"):
        load_trace(write(tmp_path, AZURE + "2023-11-16 18:15:46,0,7\n"), skip_empty=True)


# The head of a long trace


class Endless(io.RawIOBase):
    """A file of `head` and one line again and again, and how many bytes were read."""

    def __init__(self, head, line):
        self.lines, self.taken, self.rest = itertools.chain([head], itertools.repeat(line)), 0, b""

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self.rest or next(self.lines)
        buffer[:] = (data[: len(buffer)] + bytes(len(buffer)))[: len(buffer)]
        count, self.rest = min(len(buffer), len(data)), data[len(buffer) :]
        self.taken += count
        return count


@pytest.mark.parametrize(
    ("head", "line"),
    [(AZURE.encode(), b"2023-11-16 18:15:46,374,44\n"), (b"", FORMS["mooncake"].splitlines(True)[0].encode())],
)
@pytest.mark.parametrize("limit", [1, 100, 5000])
def test_a_limit_reads_what_was_asked_for_of_an_endless_trace(monkeypatch, head, line, limit):
    raw = Endless(head or line, line)

    @contextmanager
    def open_lines(path):
        yield io.BufferedReader(raw)

    monkeypatch.setattr(traces, "open_lines", open_lines)
    assert len(load_trace("endless", limit=limit)) == limit
    assert raw.taken <= len(head) + limit * len(line) + io.DEFAULT_BUFFER_SIZE


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
@pytest.mark.parametrize("form", ["azure 2023", "mooncake"])
def test_a_limit_does_not_wait_for_the_end(tmp_path, form):
    path, done = tmp_path / "pipe", threading.Event()
    os.mkfifo(path)

    def write_and_hold():
        with path.open("w") as pipe:
            pipe.write(FORMS[form])
            pipe.flush()
            done.wait(60)

    writer = threading.Thread(target=write_and_hold)
    writer.start()
    try:
        assert load_trace(path, limit=2) == TWO
    finally:
        done.set()
        writer.join()


@pytest.mark.parametrize("wrap", [str.encode, WRAPPED["gzip"], WRAPPED["zstd"], WRAPPED["utf-16"]])
def test_a_broken_line_behind_the_limit_does_not_matter(tmp_path, wrap):
    path = tmp_path / "long.jsonl"
    path.write_bytes(wrap(mooncake(*range(0, 20_000_000, 1000)) + "broken\n"))
    assert [request.arrival_s for request in load_trace(path, limit=100)] == list(range(100))
    assert len(load_trace(path, limit=20_000)) == 20_000
    with pytest.raises(ValueError, match="line 20001: must be a JSON object"):
        load_trace(path)


def test_a_limit_beyond_the_end_gives_all(tmp_path):
    assert load_trace(write(tmp_path, FORMS["mooncake"]), limit=10**9) == TWO


# Blocks, and the two readers


def test_blocks_leave_no_seam(tmp_path, monkeypatch):
    whole = load_trace(write(tmp_path, azure(*(f"2024-05-10 00:{i // 60:02}:{i % 60:02}" for i in range(500)))))
    monkeypatch.setattr(traces, "BLOCK", 100)
    monkeypatch.setattr(traces, "LINES", 7)
    path = write(tmp_path, azure(*(f"2024-05-10 00:{i // 60:02}:{i % 60:02}" for i in range(500))))
    assert list(load_trace(path)) == list(whole)
    assert list(load_trace(path, limit=400)) == whole[:400]
    assert whole[499] == Request(499, 499.0, 3, 4)
    text = path.read_text()
    with pytest.raises(ValueError, match="line 302: the time goes back by 1 s"):  # between blocks as within one
        load_trace(write(tmp_path, text.replace("00:05:00,", "00:04:58,")))
    with pytest.raises(ValueError, match="line 402: ContextTokens must be a whole number, not 'x'"):
        load_trace(write(tmp_path, text.replace("00:06:40,3", "00:06:40,x")))


ODD = [
    "0",
    "7",
    " 7 ",
    "00012",
    "0x10",
    "0X1f",
    "+5",
    "-1",
    "5.0",
    "1e3",
    "nan",
    "inf",
    "",
    "null",
    "1e300",
    '"7"',
    '"a,b"',
]
ODD += ["2147483647", "2147483648", "9" * 30, "true", "\u0665", "-0", "a\tb", "2023-11-16", "20231116", "1600-01-01"]
ODD += ["2023-11-16 18:15:46", "2023-11-16T18:15:46.1234567Z", "2023-11-16 18:15:46+01:00", "2023-11-16 18:15:60"]
GOOD_ROWS = {
    AZURE: ["2023-11-16 18:15:46", "3", "4"],
    "Timestamp,Request tokens,Response tokens\n": ["0", "3", "4"],
    "": ["0", "3", "4"],  # one JSON object a line
}


def outcome(path):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(load_trace(path))
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("header", GOOD_ROWS, ids=["dates", "seconds", "json"])
def test_both_readers_agree_on_an_odd_cell(tmp_path, header, column):
    line = "{},{},{}\n" if header else '{{"timestamp": {}, "input_length": {}, "output_length": {}}}\n'
    for odd in ODD:
        for zone in ("", "Z") if header == AZURE else ("",):
            good = list(GOOD_ROWS[header])
            good[0] += zone
            row = good[:column] + [odd] + good[column + 1 :]
            path = write(tmp_path, header + line.format(*good) + line.format(*row))
            at_once = outcome(path)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(RowReader, "_at_once", slow)
                assert outcome(path) == at_once, row


# A Trace


def test_a_trace_is_a_sequence_of_requests(tmp_path):
    trace = load_trace(write(tmp_path, mooncake(*range(0, 9_000_000, 1000))))
    assert repr(trace) == "Trace(9,000 requests in 8,999 s, 0 skipped)"
    assert trace[-1] == trace[8999] == Request(8999, 8999.0, 3, 4)
    assert trace[5000:] == list(trace)[5000:]
    assert trace[:2] == [Request(0, 0.0, 3, 4), Request(1, 1.0, 3, 4)]
    assert trace == list(trace)
    assert list(trace) == trace
    assert trace != trace[1:]
    assert trace != 9000
    assert type(trace[0].arrival_s) is float
    assert type(trace[0].prompt_tokens) is int
    with pytest.raises(IndexError):
        trace[9000]
    assert simulate(trace[:50], Paged(8, 16), 128) is not None


def test_without_pyarrow_only_load_trace_says_so(tmp_path):
    path = write(tmp_path, FORMS["mooncake"])
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pagedkv.simulation.workload import load_trace, sample_requests\n"
        "sample_requests('sharegpt', 3)\n"
        f"load_trace({str(path)!r})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1] == (
        "ImportError: load_trace reads with pyarrow, which is not installed here (pip install pyarrow)"
    )
