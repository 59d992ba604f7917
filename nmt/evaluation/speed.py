"""Training speed, read from the log of a run directory."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from nmt.training.log import read_log
from nmt.training.run import LOG


class TrainingSpeed(NamedTuple):
    """Target tokens/s of training, validation excluded: two measures that depend little on other
    load of the machine."""

    cpu: float | None  # over the process's CPU time, all threads together; None: not in the log
    fastest: float | None  # median of the fastest quarter of log intervals; None without any


def read_speed(directory: Path) -> TrainingSpeed:
    """The speed of the run in a directory.

    An interval is between two lines of the log. Runs trained on a GPU have no figure by CPU time.
    Raises UserError as `read_log`.
    """
    stretches = [one for one in read_log(directory / LOG) if "target_tokens_per_second" in one]
    rates = sorted((one["target_tokens_per_second"] for one in stretches), reverse=True)
    return TrainingSpeed(_by_cpu_time(stretches),
                         median(rates[: -(-len(rates) // 4)]) if rates else None)


def _by_cpu_time(stretches: list[dict[str, Any]]) -> float | None:
    """Tokens over CPU time, of the intervals that have it."""
    timed = [one for one in stretches if {"cpu_seconds", "target_tokens"} <= one.keys()]
    if not timed or any("pool_used_bytes" in one for one in timed) or not timed[-1]["cpu_seconds"]:
        return None
    return sum(one["target_tokens"] for one in timed) / timed[-1]["cpu_seconds"]
