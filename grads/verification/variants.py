"""Configurations of an architecture: all combinations of options, or a few combinations that have
every pair of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from nmt.models.variants import Variants

MOST = 10_000  # most combinations that are formed; if there are more, a fixed random choice
Options = dict[str, Any]


def valid(config: Callable[..., Any], variants: Variants) -> list[Options]:
    """Every combination of options for which `config` does not raise ValueError."""
    return [options for options in _combined(variants.choices) if _allows(config, options)]


def pairwise(config: Callable[..., Any], variants: Variants) -> list[Options]:
    """Valid combinations that have every value, and every pair of values that any of them has.

    They have every combination of the options `together`. The choice is greedy: the next
    combination has the most new pairs.
    """
    allowed, names = valid(config, variants), list(variants.choices)
    groups = [*combinations(names, min(2, len(names))), variants.together]
    columns = {name: _codes([options[name] for options in allowed]) for name in names}
    codes = [_together([columns[name] for name in group], len(allowed))
             for group in groups]  # which combination each one holds, by group
    missing = [np.ones(code.max(initial=-1) + 1, dtype=bool) for code in codes]
    chosen, best = [], 0  # the usual combination, if it is valid
    while any(pairs.any() for pairs in missing):
        chosen.append(allowed[best])
        for pairs, code in zip(missing, codes, strict=True):
            pairs[code[best]] = False
        gain = sum(pairs[code].astype(np.int64) for pairs, code in zip(missing, codes, strict=True))
        best = int(np.argmax(gain))
    return chosen


def _codes(values: list[Any]) -> np.ndarray:
    """A number for each value; equal values have equal numbers."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(repr(value), len(known)) for value in values], dtype=np.int64)


def _together(columns: Sequence[np.ndarray], count: int) -> np.ndarray:
    """A number for each of `count` combinations of the columns' numbers, from 0 without a gap."""
    code = np.zeros(count, dtype=np.int64)
    for column in columns:
        code = np.unique(code * (column.max(initial=0) + 1) + column, return_inverse=True)[1]
    return code


def name_of(options: Options, variants: Variants) -> str:
    """The name of a variant: its options that do not have their first, default value."""
    return ", ".join(_word(option.replace("_", " "), value) for option, value in options.items()
                     if value != variants.choices[option][0]) or "as usual"


def _word(option: str, value: Any) -> str:
    """An option with its value, in words."""
    if isinstance(value, bool):
        return option if value else f"no {option}"
    if isinstance(value, Mapping):
        return f"{option} {' '.join(value)}"
    return f"{option} {value:g}" if isinstance(value, float) else f"{option} {value}"


def _combined(choices: Mapping[str, Sequence[Any]]) -> Iterator[Options]:
    """All combinations, the default values first; a random choice of them if there are too many."""
    sizes = [len(values) for values in choices.values()]
    if np.prod(sizes, dtype=float) <= MOST:
        yield from (dict(zip(choices, values, strict=True))
                    for values in product(*choices.values()))
        return
    drawn = np.random.default_rng(0).integers(sizes, size=(MOST, len(sizes)))
    drawn[0] = 0
    for row in np.unique(drawn, axis=0):
        yield {name: values[k] for (name, values), k in zip(choices.items(), row, strict=True)}


def _allows(config: Callable[..., Any], options: Options) -> bool:
    """Whether a configuration can be made of the options."""
    try:
        config(**options)
    except ValueError:
        return False
    return True
