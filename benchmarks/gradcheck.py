"""Compares our gradient check with `torch.autograd.gradcheck` on the same translator.

The function is the loss by all parameters, of a translator with two LSTM layers, general attention
and input feeding, in float64, for a ragged batch. PyTorch checks its gradients of the reference, we
check ours. Before the timing, the two gradients must agree. gradcheck takes a central difference
for each entry; ours takes a complex step and Ridders' extrapolated differences with an error
estimate.

`checkers` runs gradient checkers on the corpus of right and wrong functions (tests/grads/corpus) in
float64: ours, gradcheck and `jax.test_util.check_grads`, all with their defaults. It reports false
alarms, misses, and the processor time for all right functions. A false alarm is a right function
that is not accepted. A miss is a wrong function that is accepted. For ours it also counts the
mistakes whose cause the report names. A report that only says where a gradient is wrong names no
cause.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from backend.errors import UserError
from benchmarks.case import Case as Timed
from benchmarks.case import Prepared
from benchmarks.devices import TESTS
from benchmarks.pictures import Chart, Panel
from benchmarks.records import middle, nested, timings
from benchmarks.runner import Benchmark, Record, Row
from benchmarks.training import gradient_difference
from grads.check import check_case, check_gradients
from grads.check.analytic import gradients_case, pair_case
from grads.check.case import Case
from grads.check.user_code import load_module
from grads.verification.peers import jax_check, torch_check
from nmt.console.messages import several
from nmt.console.progress import counted
from nmt.console.terminal import print
from nmt.data.batches import make_batch
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig

PAIRS = [([3, 4, 5, 2], [2, 3, 6]), ([2, 6], [5, 6, 7, 2]), ([6], [3])]
VOCABULARY = 8
TOLERANCE = 1e-10  # relative to a gradient's norm, between theirs and ours
CORPUS = TESTS / "gradient_corpus.py"
OURS, GRADCHECK, CHECK_GRADS = "grads.check", "torch.autograd.gradcheck", "jax check_grads"
PLACES = ("spread over all entries", "entries compared are wrong", "only one entry of those",
          "wrong only ", "right only ", "this rests on", "for each output alone")  # no causes
EVERY = 25  # --quick: one function in 25, and its first mistake

Check = Callable[[Case], bool]


def translator_case(options: argparse.Namespace) -> Iterator[Timed]:
    """The only case. Raises UserError if the gradients differ."""
    size = options.hidden
    config = ModelConfig(layers=2, hidden_size=size, embedding_size=size - 1, scale=0.5)
    model = Translator(config, VOCABULARY, VOCABULARY)
    entries = sum(math.prod(weight.shape) for weight in model.weights().values())
    yield Timed("a 2-layer translator", {"H": size}, lambda _: prepare_checks(model), entries,
                "entries", least=5)


def prepare_checks(model: Translator) -> Prepared:
    """The checks by name, after a comparison of both gradients."""
    import torch

    from grads.verification.reference.peer import Peer

    torch.set_num_threads(1)  # faster than two, on arrays as small as these
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    batch, peer = make_batch(PAIRS, range(len(PAIRS)), True), Peer(model, parameters)
    worst = gradient_difference(model, parameters, peer, batch)
    if not worst.size <= TOLERANCE:
        raise UserError(f"gradcheck: our gradient of {worst.name} is not PyTorch's")
    gradients = model.backward(model.loss(parameters, batch)[1])

    def loss_of(*values: Any) -> Any:
        return peer.loss(dict(zip(peer.parameters, values, strict=True)), batch)

    def theirs() -> None:
        assert torch.autograd.gradcheck(loss_of, tuple(peer.parameters.values()))

    def ours(method: str) -> None:
        check_gradients(lambda p: model.loss(p, batch)[0], parameters, gradients,
                        method=method, every_entry=True).raise_if_wrong()

    return Prepared({"both methods": partial(ours, "both"), "complex step": partial(
        ours, "complex"), GRADCHECK: theirs}, {"gradients": worst.size})


def corpus_case(options: argparse.Namespace) -> Iterator[Timed]:
    """The only case: all right functions."""
    if not CORPUS.is_file():
        raise UserError("checkers: the corpus is not installed; run it in a checkout, which has "
                        "tests/grads/corpus")
    corpus = load_module(CORPUS)
    pairs = corpus.PAIRS[::EVERY] if options.quick else corpus.PAIRS
    right = {pair.name: make_case(pair) for pair in pairs}
    mistakes = [(pair, mistake) for pair in pairs
                for mistake in (pair.wrong[:1] if options.quick else pair.wrong)]
    wrong = {f"{pair.name}: {mistake.what}": make_case(pair, mistake)
             for pair, mistake in mistakes}

    def prepare(_: Any) -> Prepared:
        scores = {name: measure(check, right, {} if name == OURS else wrong)
                  for name, check in make_checks().items()}
        scores[OURS] |= diagnosed(mistakes)
        return Prepared({}, fields=lambda _: {
            "right": len(right), "wrong": len(wrong), "checkers": scores})

    yield Timed("right functions", {"functions": len(right)}, prepare)


def make_case(pair: Any, wrong: Any = None, module: Any = None) -> Case:
    """A pair of the corpus as a case. A scalar's backward multiplies by the upstream gradient.

    Arguments: wrong, a mistake; module with the pair's functions, None to make them from its text.
    """
    ends = ("", "_gradient") if pair.scalar else ("_forward", "_backward")
    forward, backward = (pair.functions(wrong) if module is None else
                         (getattr(module, pair.name + end) for end in ends))
    if not pair.scalar:
        return pair_case(forward, backward, pair.inputs(), {})
    case, _ = gradients_case(forward, pair.inputs(), backward, None, {})

    def vjp(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return {name: gradient * d["f"] for name, gradient in case.vjp({}, cache).items()}

    return Case(case.inputs, case.forward, vjp)


def make_checks() -> dict[str, Check]:
    """The checkers that are installed, ours first."""
    checks: dict[str, Check] = {OURS: lambda case: check_case(case).ok}
    for library, name, make in (("torch", GRADCHECK, torch_check),
                                ("jax", CHECK_GRADS, jax_check)):
        if find_spec(library) is None:
            print(f"{name}: not run: {library} is not installed")
        else:
            checks[name] = make()
    return checks


def accepts(check: Check, case: Case) -> bool:
    """Whether a checker accepts a case. A check that ends in an error does not accept it."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            return check(case)
        except Exception:  # any error of a checker or a function
            return False


def measure(check: Check, right: Mapping[str, Case], wrong: Mapping[str, Case]) -> dict[str, Any]:
    """The names of the false alarms and of the misses, the processor seconds of the slowest right
    function, and those of all right functions."""
    alarms, slowest, begin = [], (-math.inf, ""), time.process_time()
    for name, case in counted(right.items(), "right functions"):
        start = time.process_time()
        if not accepts(check, case):
            alarms.append(name)
        slowest = max(slowest, (time.process_time() - start, name))
    total = time.process_time() - begin
    return {"false_alarms": alarms, "slowest": {"name": slowest[1], "seconds": slowest[0]},
            "processor_seconds": total,
            "misses": [name for name, case in counted(wrong.items(), "wrong functions")
                       if accepts(check, case)]}


def diagnosed(mistakes: Sequence[tuple[Any, Any]]) -> dict[str, list[str]]:
    """The names of our misses, and of the mistakes whose cause our report does not name.

    Each mistake is in a file of its own, as a user's function is: the diagnosis reads the source.
    """
    names: dict[str, list[str]] = {"misses": [], "unnamed": []}
    with TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        for number, (pair, mistake) in enumerate(counted(mistakes, "wrong functions")):
            file = Path(folder) / f"mistake{number}.py"
            file.write_text(pair.source(mistake), encoding="utf-8")
            with np.errstate(all="ignore"):
                report = check_case(make_case(pair, mistake, load_module(file)))
            hints = [hint for row in report.wrong for hint in row.hints]
            said = f"{pair.name}: {mistake.what}"
            names["misses"] += [said] * report.ok
            names["unnamed"] += [said] * (not report.findings and all(
                any(place in hint for place in PLACES) for hint in hints))
    return names


def verdicts(record: Record) -> list[str]:
    """The false alarms and misses of each checker."""
    row: Row = record["rows"][0]
    return [f"{name}: {several(len(verdict['false_alarms']), 'false alarm')} of {row['right']}, "
            f"{several(len(verdict['misses']), 'miss', 'misses')} of {row['wrong']}"
            + (f", {row['wrong'] - len(verdict['unnamed'])} of {row['wrong']} named by their cause"
               if "unnamed" in verdict else "")
            + f"; {verdict['processor_seconds']:.1f} s of processor time for the right ones"
            + "".join(f"\n  {kind}: {function}" for kind in ("false_alarms", "misses")
                      for function in verdict[kind]) for name, verdict in row["checkers"].items()]


def chart(record: Record) -> Chart:
    """A point for each check."""
    (row,) = record["rows"]
    return Chart(f"Gradient checks: {row['case']}, {row['amount']:,} {row['unit']}",
                 "further left is faster; each mark on the axis is 2 or 2.5 times the one before.",
                 [Panel("points", nested(("", name, middle(timing)) for _, name, timing in
                                         timings(record)), "milliseconds", log=True)],
                 "float64")


BENCHMARKS = {
    "gradcheck": Benchmark(translator_case, {"hidden": 8}, {"hidden": 2}, seconds=40.0,
                           needs=("torch",), chart=chart),
    "checkers": Benchmark(corpus_case, summary=verdicts),
}
