"""Measures the cost of global and local attention by the source's length.

It runs a decoder step, forward and backward, for sources of 10 to 320 words, and measures
wall-clock time and the number of arithmetic operations. Local attention computes only its window.
Therefore neither grows when the source is longer than the window, 2D + 1 words. It prints the
exponents n of cost ~ S^n, fitted to these longer sources.

The gradient of the encoder's states is not part of a step: it is computed once per batch, after the
last step. It has S rows per sentence. Rows outside of all windows are zero and must be written, so
this part grows with S in every variant. It is timed separately, and so is the writing of zeros.
(The keys of `general` and `concat` are also computed once per batch, for all S words.)

Before the timing, contexts are compared with the literal derivation, and gradients with the complex
step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from attention.attention import memory_forward
from attention.memory import Memory
from attention.scores import WINDOWS, Variant
from backend.errors import UserError
from benchmarks.case import Case, Difference, Prepared, distance, expect_equal
from benchmarks.counting import counted, counting
from benchmarks.kernel_list.attention import PREFIX, draw
from benchmarks.kernels import growth_lines
from benchmarks.pictures import Chart, Panel
from benchmarks.records import exponent, medians, middle
from benchmarks.runner import Benchmark, Record
from grads.derivations.attention_step import align, weights_of
from grads.derivations.scores import Variant as LiteralVariant

VARIANTS = {f"{window} {score}": Variant(score, window)
            for window in WINDOWS for score in ("general", "concat")}
STEPS, MEMORY, ZEROS = "", ", gradients of the memory", ", of these writing zeros"
TOLERANCE = 1e-11  # relative, in float64
TINY = 1e-30  # of the complex step


class Task(NamedTuple):
    """The inputs of a decoder's attention: a batch of sentences of one length."""

    variant: Variant
    h: np.ndarray  # (B, T, H)
    dc: np.ndarray  # (B, T, He)
    states: np.ndarray  # (S, B, He)
    parameters: Mapping[str, np.ndarray]
    first: int  # the time of the first step, such that windows lie inside the sentence

    def memory(self) -> Memory:
        """The memory, which is computed once per batch."""
        S, B, _ = self.states.shape
        return memory_forward(self.states, np.full(B, S), self.variant, self.parameters, PREFIX)


def make_task(variant: Variant, S: int, options: argparse.Namespace, dtype: str) -> Task:
    """Random numbers of the given size."""
    B, T, H = options.batch, options.steps, options.hidden
    arrays = draw(variant, S, T, B, H, dtype, options.seed)
    return Task(variant, arrays.pop("h"), arrays.pop("dc"), arrays.pop("states"), arrays,
                max(1, (S - T) // 2))


def one_step(task: Task, memory: Memory, t: int, sums: Any) -> tuple[Any, Any]:
    """Run a decoder step, forward and backward. Returns the data for `Memory.gradients`."""
    step = slice(t, t + 1)
    _, cache = memory.attend(task.h[:, step], task.first + t)
    return cache, memory.attend_backward(task.dc[:, step], cache, sums)[1]


def all_steps(task: Task, memory: Memory) -> Any:
    """The arguments that the steps provide for `Memory.gradients`."""
    sums = memory.accumulators()
    steps = [one_step(task, memory, t, sums) for t in range(task.h.shape[1])]
    return *zip(*steps, strict=True), sums


def check(name: str, task: Task) -> float:
    """Assert that contexts are the derivation's, and gradients those of the complex step; the
    largest difference."""
    def contexts(states: np.ndarray) -> np.ndarray:
        memory = task._replace(states=states).memory()
        return memory.attend(task.h.astype(states.dtype), task.first)[0]

    c, weights = contexts(task.states), weights_of(task.parameters)  # (B, T, He)
    literal = LiteralVariant(task.variant.score, task.variant.window, task.variant.D)
    expected = np.empty_like(c)
    for b, q in np.ndindex(c.shape[:2]):
        h_bar = task.states[:, b].T
        a = align(literal, task.h[b, q][:, None], h_bar, weights, task.first + q)
        expected[b, q] = (h_bar @ a)[:, 0]
    memory = task.memory()
    d_states, _ = memory.gradients(task.dc, task.h, *all_steps(task, memory))
    direction = np.random.default_rng(2).normal(size=task.states.shape)
    moved = contexts(task.states + TINY * 1j * direction)
    slope = np.array([(task.dc * moved.imag).sum() / TINY])
    differences = {f"{name}, S={len(task.states)}: {kind}": Difference(distance(got, b), kind)
             for kind, got, b in (("contexts", c, expected),
                                  ("gradient", np.array([(d_states * direction).sum()]), slope))}
    return max(expect_equal("ours and the derivation's", differences,
                            dict.fromkeys(differences, TOLERANCE)).values())


def count(task: Task) -> int:
    """Arithmetic operations of one step, forward and backward."""
    arrays = {name: counting(array) for name, array in task.parameters.items()}
    task = task._replace(h=counting(task.h), dc=counting(task.dc), parameters=arrays,
                         states=counting(task.states))
    memory = task.memory()
    sums = memory.accumulators()
    return counted(lambda: one_step(task, memory, 0, sums))


def costs(task: Task) -> dict[str, Callable[[], Any]]:
    """The timed calls: all steps of a batch, and the work after the last step."""
    memory = task.memory()
    gradients_of_steps = all_steps(task, memory)
    return {
        STEPS: lambda: all_steps(task, memory),
        MEMORY: lambda: memory.gradients(task.dc, task.h, *gradients_of_steps),
        ZEROS: lambda: np.zeros(task.states.shape, task.states.dtype).fill(0.0),
    }


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Every cost of every variant, over all lengths."""
    long = [S for S in options.sources if S > 2 * options.window + 1]
    if len(set(long)) < 2:
        raise UserError(f"--sources: expected at least two lengths above 2 D + 1 = "
                        f"{2 * options.window + 1} to fit exponents to, got {options.sources}")
    small = argparse.Namespace(**{**vars(options), "batch": 2, "hidden": 6, "steps": 3})
    sizes = {"growing": "S", "B": options.batch, "T": options.steps, "H": options.hidden,
             "D": options.window}
    for name, variant in VARIANTS.items():
        variant = variant._replace(D=options.window)
        for cost in (STEPS, MEMORY, ZEROS):
            def prepare(_: Any, name: str = name, variant: Variant = variant,
                        cost: str = cost) -> Prepared:
                away = max(check(name, make_task(variant, S, small, "float64"))
                           for S in options.sources)
                tasks = {S: make_task(variant, S, options, "float32") for S in options.sources}
                return Prepared({str(S): costs(task)[cost] for S, task in tasks.items()},
                                {"contexts and gradients": away}, fields=lambda _: {
                    "letter": "S", "implementation": "NumPy", "fitted": [str(S) for S in long],
                    "operations": {} if cost else {str(S): count(t) for S, t in tasks.items()}})

            yield Case(name + cost, sizes, prepare, 1 if cost else options.steps,
                       "" if cost else "steps")


def chart(record: Record) -> Chart:
    """Both costs of a step over the source's length."""
    rows = [row for row in record["rows"] if row["operations"]]
    times = {f"{row['case']}: $S^{{{exponent(row, medians(row)):.2f}}}$": {
        float(S): middle(timing, 1e3 / row["amount"]) for S, timing in row["seconds"].items()}
        for row in rows}
    counts = {f"{row['case']}: operations $S^{{{exponent(row, row['operations']):.2f}}}$": {
        float(S): n / 1e6 for S, n in row["operations"].items()} for row in rows}
    return Chart("Attention: the cost of one step of the decoder by the source's length",
                 "a flat line costs the same for any source, as a local window does past its "
                 "width. The legend has the power of S that the cost grows by. Lower is better.",
                 [Panel("lines", times, "source words S", "milliseconds", "one step", log=True),
                  Panel("lines", counts, "source words S", "million operations", "one step",
                        log=True)])


SIZES = {"batch": 32, "steps": 20, "hidden": 256, "window": 10, "seed": 1,
         "sources": [10, 20, 40, 80, 160, 320]}
BENCHMARKS = {"attention": Benchmark(
    cases, SIZES, {"batch": 2, "steps": 2, "hidden": 6, "window": 1, "sources": [3, 6, 12]},
    seconds=7.0, chart=chart, summary=growth_lines)}
