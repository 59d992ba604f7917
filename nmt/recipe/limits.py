"""Limits for the numbers of a recipe.

A number beyond the limits is a mistake or an attack: it would fill the memory, train for years or
overflow. No key may be infinite or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

SIZES = (1, 100_000)
COUNTS = (0, 10**7)
LENGTHS = (1, 10**6)
LIMITS = {  # least and most, by the last part of a key
    "layers": (1, 100), "character_layers": (1, 100), "encoder_layers": (1, 100),
    "decoder_layers": (1, 100), "heads": SIZES, "inner_size": SIZES, "positions": LENGTHS,
    "hidden_size": SIZES, "embedding_size": SIZES, "layer_size": SIZES,
    "character_embedding_size": SIZES,
    "window": LENGTHS, "location_length": LENGTHS, "max_length": LENGTHS,
    "max_translate_length": LENGTHS, "length": LENGTHS, "batch_size": LENGTHS, "streams": LENGTHS,
    "sorted_within": LENGTHS, "train_size": COUNTS, "dev_size": COUNTS, "test_size": COUNTS,
    "batch_tokens": LENGTHS, "warmup": COUNTS,
    "epochs": (1e-6, 1e6), "halve_every": (1e-6, 1e6), "learning_rate": (1e-30, 1e6),
    "scale": (0, 1e6), "forget_bias": (-1e6, 1e6), "max_norm": (1e-30, 1e9),
    "clip_elements": (1e-30, 1e9), "plateau_minimum": (1e-30, 1e6), "epsilon": (1e-30, 1e6),
    "weight_decay": (0, 1e6), "seed": (0, 2**63 - 1),
}
OTHERS = (-10**9, 10**9)


def beyond_limits(key: str, value: Any) -> str | None:
    """The message on what was expected, if the value of a dotted key has a number out of range;
    otherwise None."""
    smallest, largest = LIMITS.get(key.rpartition(".")[2], OTHERS)
    for number in _numbers(value):
        if isinstance(number, float) and not math.isfinite(number):
            return "a finite number"
        if number > largest:
            return f"at most {largest:,.15g}"
        if number < smallest:
            return f"at least {smallest:,.15g}"
    return None


def _numbers(value: Any) -> Iterator[int | float]:
    """The numbers in a value, which may be a mapping or a list."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value
