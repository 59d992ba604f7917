"""Training speed, read from the log of a run directory."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from nmt.training.log import read_log
from nmt.training.run import LOG


class TrainingSpeed(NamedTuple):
    """Target tokens/s of training without validation, by two measures that depend little on other
    load of the machine."""

    cpu: float | None  # per second of CPU time of all threads; None if the log does not have it
    fastest: float | None  # median of the fastest quarter of log intervals; None without intervals


def read_speed(directory: Path) -> TrainingSpeed:
    """The training speed of the run in a directory.

    An interval is the time between two lines of the log. Runs on a GPU have no speed by CPU time.
    Raises UserError as `read_log`.
    """
    stretches = [record for record in read_log(directory / LOG)
                 if "target_tokens_per_second" in record]
    rates = sorted((record["target_tokens_per_second"] for record in stretches), reverse=True)
    return TrainingSpeed(_by_cpu_time(stretches),
                         median(rates[: -(-len(rates) // 4)]) if rates else None)


def _by_cpu_time(stretches: list[dict[str, Any]]) -> float | None:
    """The tokens per second of CPU time, over the intervals that have it; None on a GPU."""
    timed = [record for record in stretches if {"cpu_seconds", "target_tokens"} <= record.keys()]
    on_gpu = any("pool_used_bytes" in record for record in timed)
    if not timed or on_gpu or not timed[-1]["cpu_seconds"]:
        return None
    return sum(record["target_tokens"] for record in timed) / timed[-1]["cpu_seconds"]
