"""What each iteration of a loop adds to a gradient that is a sum: dT at t = 4, 3, 2, 1."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from grads.stepper.explorer.tensors import BACKWARD, Table, flat
from grads.stepper.trace import Origin, Trace

ROUGH = 6  # significant digits of a term


def sums_json(table: Table) -> list[dict[str, Any]]:
    """The complete sums, each with its terms in the order in which they were added, and the tensor
    of each stage, null where it is not shown."""
    trace = table.run.backward
    return [{"target": table.ids[BACKWARD, chain[-1]], "terms": terms(trace, chain),
             "chain": [table.ids.get((BACKWARD, origin)) for origin in chain]}
            for chain in chains(trace) if len(chain) > 1 and (BACKWARD, chain[-1]) in table.ids]


def chains(trace: Trace) -> list[list[Origin]]:
    """The assignments of each sum: a zero, then the same name again and again, each time reading
    itself, once in every iteration of a loop."""
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
            if step.own_loops and open_sums[place] and open_sums[place][-1] in read:
                open_sums[place].append(origin)
            elif not np.any(target.value):
                open_sums[place] = [origin]
                chains.append(open_sums[place])
            else:
                open_sums[place] = []
    return chains


def terms(trace: Trace, chain: list[Origin]) -> list[dict[str, Any]]:
    """What each assignment of a sum added to it."""
    values = [np.asarray(trace.target(origin).value) for origin in chain]
    return [{"loops": [list(loop) for loop in trace.steps[origin[0]].loops],
             "value": flat(after - before, ROUGH)}
            for origin, before, after in zip(chain[1:], values, values[1:], strict=False)]
