"""Our gradient check against `torch.autograd.gradcheck`, on the same translator.

Two LSTM layers, general attention, input feeding, float64, a ragged batch: the loss as a function
of all parameters. PyTorch checks its own gradients of the reference, we check ours; the two
gradients agree before anything is timed. gradcheck takes one central difference an entry; ours
takes a complex step and Ridders' extrapolated differences with an error estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from backend.command import positive
from backend.errors import UserError
from benchmarks.options import make_parser, parse
from benchmarks.paired import timed
from benchmarks.pictures import bars, titled
from benchmarks.record import publish
from benchmarks.timing import describe, environment
from grads.check import check_gradients
from grads.check.case import dense
from nmt.data.batches import make_batch
from nmt.models.translator import ModelConfig, Translator

PAIRS = [([3, 4, 5, 2], [2, 3, 6]), ([2, 6], [5, 6, 7, 2]), ([6], [3])]
VOCABULARY = 8
LEAST = 5  # measurements of each check
TOLERANCE = 1e-10  # of a tensor's largest gradient, between theirs and ours


def main(arguments: list[str]) -> None:
    """Compare, print the ratio, and write `results/gradcheck-<kernels>.json`."""
    parser = make_parser("gradcheck", __doc__, 40.0)
    parser.add_argument("--hidden", type=positive, default=8, help="default 8")
    options = parse(parser, arguments)
    if options.quick:
        options.hidden = 2
    if find_spec("torch") is None:
        raise UserError("gradcheck: PyTorch is not installed; install the extra `oracle`")
    checks, entries = make_checks(options.hidden)
    found = environment()
    print(describe(found))
    timings = timed(checks, options.seconds, 1 if options.quick else LEAST)
    print(f"{entries} entries of all parameters, hidden size {options.hidden}")
    for name, timing in timings.items():
        print(f"{name:24}{timing}  {1e6 * timing.median / entries:8.1f} us an entry")
    theirs = timings["gradcheck"].median
    ratios = {name: timing.median / theirs for name, timing in timings.items()}
    for name, ratio in ratios.items():
        if name != "gradcheck":
            print(f"{name} / gradcheck: {ratio:.3f}")
    made: dict[str, Any] = {
        "environment": found, "hidden": options.hidden, "entries": entries, "ratios": ratios,
        "seconds": {name: timing._asdict() for name, timing in timings.items()},
    }
    path = options.output / f"gradcheck-{found['kernels']}.json"
    publish(path, made, picture)


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """A point for each way to check."""
    names = {"gradcheck": "torch.autograd.gradcheck"}
    figure = bars(plt, {"": {names.get(name, name): timing
                             for name, timing in record["seconds"].items()}}, log=True)
    titled(figure, f"A gradient check of a translator, {record['entries']:,} entries",
           record["environment"], "further left is faster; each mark on the axis is 2 or 2.5 times "
           "the one before.", "float64")
    return figure


def make_checks(hidden: int) -> tuple[dict[str, Callable[[], Any]], int]:
    """The checks by name, after a comparison of both gradients; and the number of entries.

    Raises UserError where they differ.
    """
    import torch

    from benchmarks.peer import Peer

    torch.set_num_threads(1)  # faster than two, on arrays as small as these
    config = ModelConfig(layers=2, hidden_size=hidden, embedding_size=hidden - 1, scale=0.5)
    model = Translator(config, VOCABULARY, VOCABULARY)
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    batch = make_batch(PAIRS, range(len(PAIRS)), reverse_source=True)
    _, cache = model.loss(parameters, batch)
    gradients = model.backward(cache)
    peer = Peer(model, parameters)
    peer(batch).backward()
    for name, d in peer.gradients().items():
        if not np.abs(dense(gradients[name]) - d).max() <= TOLERANCE * np.abs(d).max():
            raise UserError(f"gradcheck: our gradient of {name} is not PyTorch's")

    def loss_of(*values: Any) -> Any:
        return peer.loss(dict(zip(peer.parameters, values, strict=True)), batch)

    def theirs() -> None:
        assert torch.autograd.gradcheck(loss_of, tuple(peer.parameters.values()))

    def ours(method: str) -> Callable[[], None]:
        def check() -> None:
            check_gradients(lambda p: model.loss(p, batch)[0], parameters, gradients,
                            method=method, every_entry=True).raise_if_wrong()
        return check

    checks = {"both methods": ours("both"), "complex step": ours("complex"), "gradcheck": theirs}
    return checks, sum(p.size for p in parameters.values())
