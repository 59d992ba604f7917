"""How fast a system was trained, read from the log of its run directory."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from nmt.training.log import read_log
from nmt.training.trainer import LOG


class TrainingSpeed(NamedTuple):
    """Target tokens a second of training, validation left out; two figures that other work on the
    machine changes little, though it slows training down."""

    cpu: float | None  # over the process's CPU time, all threads together; None: not in the log
    fastest: float | None  # median of the fastest quarter of stretches; None without any


def read_speed(directory: Path) -> TrainingSpeed:
    """The speed of the run in a directory.

    A stretch is what a line of the log tells of. Trained on a GPU a run has no figure by CPU time,
    which says nothing there. Raises UserError as `read_log`.
    """
    stretches = [one for one in read_log(directory / LOG) if "target_tokens_per_second" in one]
    rates = sorted((one["target_tokens_per_second"] for one in stretches), reverse=True)
    return TrainingSpeed(_by_cpu_time(stretches),
                         median(rates[: -(-len(rates) // 4)]) if rates else None)


def _by_cpu_time(stretches: list[dict[str, Any]]) -> float | None:
    """Tokens of the stretches that tell CPU time, over all of it."""
    timed = [one for one in stretches if {"cpu_seconds", "target_tokens"} <= one.keys()]
    if not timed or any("pool_used_bytes" in one for one in timed) or not timed[-1]["cpu_seconds"]:
        return None
    return sum(one["target_tokens"] for one in timed) / timed[-1]["cpu_seconds"]
