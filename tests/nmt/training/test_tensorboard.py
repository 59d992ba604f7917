"""`nmt train --tensorboard`: the event files hold the numbers of the log."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_run import nmt

from nmt.training.log import read_log

event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2", reason="needs tensorboardX")


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """The numbers of all event files, by name, in the order in which the files were made."""
    numbers = defaultdict(list)
    for path in sorted(directory.iterdir()):
        for record in records(path.read_bytes()):
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                numbers[value.tag].append((event.step, value.simple_value))
    return numbers


def records(content: bytes) -> Iterator[bytes]:
    """The records of a TFRecord file: length, checksum, data, checksum."""
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        yield content[12 : 12 + length]
        content = content[16 + length :]


def test_the_numbers_of_the_log(corpus: Path) -> None:
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "run", "--tensorboard") == 0
    assert nmt("train", "--resume", corpus / "run", "--train.epochs", 3, "--tensorboard") == 0
    log = read_log(corpus / "run" / "log.jsonl")
    epochs = [record for record in log if record["event"] == "epoch"]
    updates = [record for record in log if record["event"] == "update"]
    written = scalars(corpus / "run" / "tensorboard")
    for name in ("perplexity", "bleu"):
        wanted = [(record["step"], record["scores"][name]) for record in epochs]
        assert written[f"dev/{name}"] == [(step, pytest.approx(value)) for step, value in wanted]
    assert [value for _, value in written["epoch/train_perplexity"]] == \
        pytest.approx([record["perplexity"] for record in epochs])
    assert len(written["train/perplexity"]) > 2
    logged = {record["step"]: record["perplexity"] for record in updates}
    for step, value in written["train/perplexity"]:
        assert value == pytest.approx(logged[step])


def test_a_run_that_never_begins_leaves_no_files(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "run", "--tensorboard",
               "--data.dev_source", "none") == 2
    assert not (corpus / "run").exists() and "none" in capsys.readouterr().err


def test_without_the_library_it_says_so(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.training.tensorboard.importlib.util.find_spec", lambda name: None)
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "run", "--tensorboard") == 2
    assert "--tensorboard: tensorboardX is not installed" in capsys.readouterr().err
    assert not (corpus / "run").exists()
