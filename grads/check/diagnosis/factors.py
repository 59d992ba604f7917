"""Factors that a user's backward may have forgotten, with the names that they have there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

import numpy as np

from grads.check.diagnosis.candidates import VALUE, Arrays, kind
from grads.check.diagnosis.evidence import Array
from grads.check.diagnosis.instrument import Source

LARGE = 1e100  # a factor is below it


def named_factors(values: Arrays, sources: Sequence[Source]) -> list[tuple[float, str]]:
    """Factors with the text in place of an expression: settings, small numbers, scalars of the
    functions, lengths and sizes."""
    settings = [(1.0, VALUE)]  # with 1, the sign is wrong
    known = [(2.0, f"2 * {VALUE}"), (0.5, f"{VALUE} / 2"), (3.0, f"3 * {VALUE}")]
    squares = list[tuple[float, str]]()
    loops = {name.id for source in sources for loop in ast.walk(source.tree)
             if isinstance(loop, (ast.For, ast.comprehension))
             for name in ast.walk(loop.target) if isinstance(name, ast.Name)}
    for text, value in values.items():
        if text not in loops and np.ndim(value) == 0 and (
                1 / LARGE < abs(value) < LARGE and abs(value) != 1):
            size = abs(float(value))
            plainly = kind(value) == "f" and "(" not in text[1:]
            (settings if plainly else known).extend([
                (size, f"{VALUE} * {text}"), (1 / size, f"{VALUE} / {text}")])
            squares += [(size**2, f"{VALUE} * {text} ** 2"),
                        (size**-2, f"{VALUE} / {text} ** 2")]
    named = {f"{text}.{length}": float(n) for text, value in values.items()
             if text.isidentifier() and np.ndim(value) for length, n in (
                 ("size", np.size(value)),
                 *((f"shape[{axis}]", n) for axis, n in enumerate(np.shape(value))))}
    for text, size in named.items():
        if size > 1:
            known += [(size, f"{VALUE} * {text}"), (1 / size, f"{VALUE} / {text}")]
    return settings + known + squares


def fitting(doubled: Arrays, original: Arrays, wrong: Iterable[tuple[str, Array]]) -> float | None:
    """The factor of an expression with which a wrong gradient is right; None if no wrong gradient
    depends on the expression.

    Arguments: doubled, the gradients with the factor 2; original, with 1; wrong, the names of wrong
    gradients with the right ones, NaN where they are not known.
    """
    for name, numeric in wrong:
        known = np.isfinite(numeric)
        change = (doubled[name] - original[name])[known]
        if change.any():
            lacks = (numeric - original[name])[known]
            return 1 + float((change * lacks).sum() / (change * change).sum())
    return None
