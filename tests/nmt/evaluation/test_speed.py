"""Target tokens per second of training, computed by hand from logs."""

import json

import pytest

from backend.errors import UserError
from nmt.evaluation.speed import TrainingSpeed, read_speed


def log(directory, *records):
    lines = [json.dumps({"event": "update", "step": 1, **record}) for record in records]
    (directory / "log.jsonl").write_text("".join(line + "\n" for line in lines))
    return read_speed(directory)


def stretch(tokens, rate, **fields):
    return {"target_tokens": tokens, "target_tokens_per_second": rate, **fields}


def test_cpu_time_takes_all_stretches(tmp_path) -> None:
    """700 tokens in 3.5 s of CPU time, whatever the clock says; other records do not count."""
    speed = log(tmp_path, stretch(100, 1.0, cpu_seconds=0.5), {"event": "epoch", "loss": 2.0},
                stretch(600, 900.0, cpu_seconds=3.5))
    assert speed == TrainingSpeed(200.0, 900.0)


def test_the_fastest_quarter(tmp_path) -> None:
    """Of nine intervals the three fastest count; the others may have been disturbed."""
    rates = [10, 400, 20, 500, 30, 10, 10, 300, 10]
    assert log(tmp_path, *({"target_tokens_per_second": rate} for rate in rates)) \
        == TrainingSpeed(None, 400)
    assert log(tmp_path, {"target_tokens_per_second": 7.0}) == TrainingSpeed(None, 7.0)


def test_a_run_that_went_on_with_cpu_time_counts_from_there(tmp_path) -> None:
    speed = log(tmp_path, {"target_tokens_per_second": 50.0}, stretch(100, 40.0, cpu_seconds=2.0),
                stretch(60, 30.0, cpu_seconds=4.0))
    assert speed == TrainingSpeed(40.0, 50.0)


def test_on_a_gpu_cpu_time_says_nothing(tmp_path) -> None:
    speed = log(tmp_path, stretch(100, 40.0, cpu_seconds=2.0, pool_used_bytes=9))
    assert speed == TrainingSpeed(None, 40.0)


def test_logs_without_a_stretch(tmp_path) -> None:
    assert log(tmp_path) == TrainingSpeed(None, None)
    (tmp_path / "log.jsonl").write_text("{\n")
    with pytest.raises(UserError, match=r"log.jsonl:1: expected a record of a training log"):
        read_speed(tmp_path)
