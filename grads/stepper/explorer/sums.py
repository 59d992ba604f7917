"""Splits a gradient that is a sum over a loop into its terms: dT at t = 4, 3, 2, 1."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Any

import numpy as np

from grads.stepper.explorer.tensors import BACKWARD, Table, flat
from grads.stepper.trace import Origin, Trace

ROUGH = 6  # significant digits of a term
BEFORE = ("", "if 0: pass\n", "try: pass\n")  # what else: or except: has to follow


def sums_json(table: Table) -> list[dict[str, Any]]:
    """The complete sums, each with its terms in the order in which they were added, and the tensor
    of each stage (null if it is not shown)."""
    trace = table.run.backward
    return [{"target": table.ids[BACKWARD, chain[-1]], "terms": terms(trace, chain),
             "chain": [table.ids.get((BACKWARD, origin)) for origin in chain]}
            for chain in chains(trace) if len(chain) > 1 and (BACKWARD, chain[-1]) in table.ids]


def chains(trace: Trace) -> list[list[Origin]]:
    """The assignments of each sum: a zero, followed by assignments to the same name that read its
    old value, one in each iteration of a loop."""
    chains: list[list[Origin]] = []
    open_sums: dict[tuple[int, str], list[Origin]] = defaultdict(list)
    for step in trace.steps:
        if step.kind != "assign":
            continue
        read = {origin for source in step.reads for origin in source.origins}
        for i, target in enumerate(step.targets):
            if target.shape is None or "[" in target.written:
                continue
            origin, place = (step.number, i), (step.frame, target.name)
            if step.own_loops and open_sums[place] and open_sums[place][-1] in read and not (
                    is_scaled(step.text, target.written)):
                open_sums[place].append(origin)
            elif not np.any(target.value):
                open_sums[place] = [origin]
                chains.append(open_sums[place])
            else:
                open_sums[place] = []
    return chains


def is_scaled(text: str, name: str) -> bool:
    """Whether a statement multiplies or divides the old value of a variable, as in `dc = dc * f`.
    Such a statement does not add a term. Argument text: the lines of the statement, which may hold
    others, or begin with `else:`."""
    for before in BEFORE:
        try:
            tree = ast.parse(before + text.strip())
            break
        except SyntaxError:
            continue
    else:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name:
            return not isinstance(node.op, (ast.Add, ast.Sub))
        if isinstance(node, ast.Assign) and name in _names(node.targets):
            return any(isinstance(value, ast.BinOp) and not isinstance(value.op, (ast.Add, ast.Sub))
                       and name in (ast.unparse(value.left), ast.unparse(value.right))
                       for value in ast.walk(node.value))
    return False


def _names(targets: list[ast.expr]) -> set[str]:
    """The names that targets, also those of a tuple, assign."""
    return {ast.unparse(node) for target in targets for node in ast.walk(target)
            if isinstance(node, ast.expr)}


def terms(trace: Trace, chain: list[Origin]) -> list[dict[str, Any]]:
    """The term that each assignment of a sum added."""
    values = [np.asarray(trace.target(origin).value) for origin in chain]
    return [{"loops": [list(loop) for loop in trace.steps[origin[0]].loops],
             "value": flat(after - before, ROUGH)}
            for origin, before, after in zip(chain[1:], values, values[1:], strict=False)]
