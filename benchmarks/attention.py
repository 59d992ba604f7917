"""The cost of global and local attention by the source's length.

One decoder step, forward and backward, for sources of 10 to 320 words: wall-clock time, and the
number of arithmetic operations, counted while it runs. Local attention computes only its window, so
that neither grows once the source is longer than the window, 2D + 1 words. Printed are exponents n
of cost ~ S^n, fitted to those sources.

Not part of a step: the gradient of the encoder's states is computed once a batch, after the last
step. It has S rows a sentence. Rows outside all windows are zero, and have to be written: this
grows with S in every variant, and is timed separately, with its share of writing zeros. (The keys
of `general` and `concat` are also computed once a batch, for all S words.)

Before anything is timed, contexts are compared with the literal derivation, and gradients with the
complex step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from attention.attention import (
    AttentionCache,
    Memory,
    ScoreGradients,
    accumulators,
    attention_backward,
    attention_forward,
    memory_backward,
    memory_forward,
)
from attention.scores import WINDOWS, Variant, score_weights
from backend.command import positive
from backend.errors import UserError
from benchmarks.counting import counted, counting
from benchmarks.kernel_list.attention import PREFIX
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.paired import timed
from benchmarks.pictures import MARKS, plain_numbers, titled
from benchmarks.record import publish
from benchmarks.timing import describe, environment
from grads.derivations.attention_step import Variant as LiteralVariant
from grads.derivations.attention_step import align, weights_of
from lstm.parameters import Scheme

VARIANTS = {f"{window} {score}": Variant(score, window)
            for window in WINDOWS for score in ("general", "concat")}
STEP, MEMORY, ZEROS = "step", "memory", "zeros"  # the timed costs; the last is a part of the second
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
        """The memory, which is computed once a batch."""
        return memory_forward(self.states, None, self.variant, self.parameters, PREFIX)


def make_task(variant: Variant, S: int, options: argparse.Namespace, dtype: str) -> Task:
    """Random numbers of the given size."""
    rng, (B, T, H) = np.random.default_rng(options.seed), (options.batch, options.steps,
                                                           options.hidden)
    weights = score_weights(variant, PREFIX, H, H, Scheme())
    parameters = {name: rng.normal(scale=H**-0.5, size=w.shape).astype(dtype)
                  for name, w in weights.items()}
    h, dc = (rng.normal(size=(B, T, H)).astype(dtype) for _ in range(2))
    first = max(1, (S - T) // 2)
    return Task(variant, h, dc, rng.normal(size=(S, B, H)).astype(dtype), parameters, first)


def one_step(
    task: Task, memory: Memory, t: int, sums: Any
) -> tuple[AttentionCache, ScoreGradients]:
    """One decoder step, forward and backward."""
    one = slice(t, t + 1)
    _, cache = attention_forward(task.h[:, one], memory, task.first + t)
    return cache, attention_backward(task.dc[:, one], cache, memory, sums)[1]


def all_steps(task: Task, memory: Memory) -> Any:
    """The arguments that the steps provide for `memory_backward`."""
    sums = accumulators(memory)
    steps = [one_step(task, memory, t, sums) for t in range(task.h.shape[1])]
    return [cache for cache, _ in steps], [step for _, step in steps], sums


# --- equality -------------------------------------------------------------------------------------


def check(name: str, task: Task) -> None:
    """Assert that contexts are the derivation's, and gradients those of the complex step."""
    S, B, He = task.states.shape
    c = contexts(task, task.h, task.states)
    literal = LiteralVariant(task.variant.score, task.variant.window, task.variant.D)
    for b in range(B):
        h_bar = task.states[:, b].T
        for q in range(task.h.shape[1]):
            a = align(literal, task.h[b, q][:, None], h_bar, weights_of(task.parameters),
                               task.first + q)
            expect(f"{name}, S={S}: context", c[b, q], (h_bar @ a)[:, 0])
    memory = task.memory()
    caches, steps, sums = all_steps(task, memory)
    d_states, _ = memory_backward(task.dc, task.h, caches, steps, memory, sums)
    rng = np.random.default_rng(2)
    direction = rng.normal(size=(S, B, He))
    moved = contexts(task, task.h, task.states + TINY * 1j * direction)
    slope = (task.dc * moved.imag).sum() / TINY
    expect(f"{name}, S={S}: gradient", np.array([(d_states * direction).sum()]), np.array([slope]))


def contexts(task: Task, h: np.ndarray, states: np.ndarray) -> np.ndarray:
    """c_t (B, T, He) of all steps at once."""
    memory = task._replace(states=states).memory()
    return attention_forward(h.astype(states.dtype), memory, task.first)[0]


def expect(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Raise AssertionError unless the two are equal up to rounding."""
    away = np.abs(found - expected).max() / np.abs(expected).max()
    if not away <= TOLERANCE:
        raise AssertionError(f"{what}: expected it equal to {TOLERANCE}, got {away:.1e} away")


# --- costs ----------------------------------------------------------------------------------------


def count(task: Task) -> int:
    """Arithmetic operations of one step, forward and backward."""
    arrays = {name: counting(array) for name, array in task.parameters.items()}
    task = task._replace(h=counting(task.h), dc=counting(task.dc), parameters=arrays,
                         states=counting(task.states))
    memory = task.memory()
    sums = accumulators(memory)
    return counted(lambda: one_step(task, memory, 0, sums))


def make_costs(task: Task) -> dict[str, Callable[[], Any]]:
    """The two costs to be timed: all steps of a batch, and what follows the last of them."""
    memory = task.memory()
    caches, steps, sums = all_steps(task, memory)
    return {
        STEP: lambda: all_steps(task, memory),
        MEMORY: lambda: memory_backward(task.dc, task.h, caches, steps, memory, sums),
        ZEROS: lambda: np.zeros(memory.hbar.shape, memory.hbar.dtype).fill(0.0),
    }


def exponent(sources: list[int], costs: list[float], above: int) -> float:
    """n of cost ~ S^n by least squares of the logarithms, over sources longer than `above`."""
    points = [(S, cost) for S, cost in zip(sources, costs, strict=True) if S > above]
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


# --- the benchmark --------------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    """Compare, measure, print, and write `attention-<kernels>.json` and `.png`."""
    options = parse(arguments)
    found = environment()
    print(describe(found))
    variants = {name: variant._replace(D=options.window) for name, variant in VARIANTS.items()}
    for name, variant in variants.items():
        for S in options.sources:
            check(name, make_task(variant, S, small(options), "float64"))
    print("equal: contexts to the derivation, gradients to the complex step")
    rows = {name: measure(variant, options) for name, variant in variants.items()}
    report(options, rows)
    path = options.output / f"attention-{found['kernels']}.json"
    asked = {name: value for name, value in vars(options).items() if name != "output"}
    record = {"options": asked, "environment": found, "variants": rows}
    publish(path, record, picture)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("attention", __doc__, 20.0)
    sizes = {"batch": 32, "steps": 20, "hidden": 256, "window": 10, "seed": 1}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"default {default}")
    parser.add_argument("--sources", type=positive, nargs="+", default=[10, 20, 40, 80, 160, 320],
                        metavar="S", help="source lengths, default 10 20 40 80 160 320")
    options = read_options(parser, arguments)
    if options.quick:
        vars(options).update({"batch": 2, "steps": 2, "hidden": 6, "window": 1,
                              "sources": [3, 6, 12]})
    long = {S for S in options.sources if S > 2 * options.window + 1}
    if len(long) < 2 or min(options.sources) < 1:
        raise UserError(f"--sources: expected at least two lengths above 2 D + 1 = "
                        f"{2 * options.window + 1} to fit exponents to, got {options.sources}")
    return options


def small(options: argparse.Namespace) -> argparse.Namespace:
    """The same with few numbers, for the comparison."""
    return argparse.Namespace(**{**vars(options), "batch": 2, "hidden": 6, "steps": 3})


def measure(variant: Variant, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and operations by source length, in step with `options.sources`, and exponents."""
    tasks = {S: make_task(variant, S, options, "float32") for S in options.sources}
    calls = {(kind, S): act for S, task in tasks.items()
              for kind, act in make_costs(task).items()}
    timings = timed({f"{kind} {S}": act for (kind, S), act in calls.items()}, options.seconds)
    each = {STEP: options.steps, MEMORY: 1, ZEROS: 1}  # what one run has several of
    costs, low, high = ({
        kind: [getattr(timings[f"{kind} {S}"], which) / number for S in tasks]
        for kind, number in each.items()} for which in ("median", "low", "high"))
    costs["operations"] = [count(task) for task in tasks.values()]
    above = 2 * options.window + 1
    return {"costs": costs, "quartiles": {"low": low, "high": high}, "exponents": {
        kind: exponent(options.sources, values, above) for kind, values in costs.items()}}


def report(options: argparse.Namespace, rows: dict[str, Any]) -> None:
    """A table of each cost by source length, and its exponent."""
    titles = {
        STEP: ("one step, forward and backward, ms", 1e3),
        "operations": ("one step, forward and backward, million operations", 1e-6),
        MEMORY: (f"gradients of the memory after {options.steps} steps, ms", 1e3),
        ZEROS: ("of this, writing zeros for the encoder's states, ms", 1e3),
    }
    print(f"B={options.batch}, H=He={options.hidden}, D={options.window}, float32, cpu; n of "
          f"cost ~ S^n over S > {2 * options.window + 1}")
    for kind, (title, scale) in titles.items():
        print(f"\n{title:52}" + "".join(f"{f'S={S}':>9}" for S in options.sources) + f"{'n':>8}")
        for name, row in rows.items():
            print(f"{name:52}" + "".join(f"{scale * cost:9.3f}" for cost in row["costs"][kind])
                  + f"{row['exponents'][kind]:8.2f}")
            if kind in row["quartiles"]["low"]:
                half = [(high - low) / 2 for low, high in zip(
                    row["quartiles"]["low"][kind], row["quartiles"]["high"][kind], strict=True)]
                print(f"{'  half the distance of the quartiles':52}"
                      + "".join(f"{scale * spread:9.3f}" for spread in half))


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """Both costs of a step over the source's length."""
    options, variants = record["options"], record["variants"]
    figure, panels = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
    titles = {STEP: ("milliseconds", 1e3), "operations": ("million operations", 1e-6)}
    for axes, (kind, (title, scale)) in zip(panels, titles.items(), strict=True):
        for mark, (name, row) in zip(MARKS, variants.items(), strict=False):
            axes.loglog(options["sources"], [scale * cost for cost in row["costs"][kind]],
                        f"{mark}-", label=f"{name}: $S^{{{row['exponents'][kind]:.2f}}}$")
        axes.axvline(2 * options["window"] + 1, color="0.7", linestyle=":")
        axes.set(xlabel="source words S (dotted: 2D + 1)", title=f"one step, {title}")
        axes.set_xticks(options["sources"], map(str, options["sources"]))
        plain_numbers(axes.yaxis)
        axes.legend(fontsize=7)
    titled(figure, "Attention: the cost of one step of the decoder by the source's length",
           record["environment"],
           "a flat line costs the same for any source, as a local window does past its width "
           "(dotted). The legend has the power of S that the cost grows by. Lower is better.")
    return figure
