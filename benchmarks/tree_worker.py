"""The worker process of `benchmarks.two_trees` for one tree; it reads a command a line.

Started as a script with that tree alone on the path, so it imports nothing of its own package.
The functions before `WORK` adapt to the names of a tree's modules and functions; a tree from before
the contract of `nmt.models.contract` is recognised by having no `nmt.models.registry`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

Run = Callable[[], float]  # does the work once; a number that both trees share
NEVER = -1e4  # bias of the end marker, so that every hypothesis takes all steps
LEARNING_RATE, MAX_NORM = 0.001, 5.0


def first(*names: str) -> ModuleType:
    """The first of the modules that this tree has."""
    for name in names:
        if find_spec(name.rpartition(".")[0]) and find_spec(name):
            return import_module(name)
    raise ModuleNotFoundError(f"expected one of {', '.join(names)} in this tree")


def has_contract() -> bool:
    """Whether models are those of a registry and draw their noise outside the loss."""
    return find_spec("nmt.models.registry") is not None


def make_model(options: Mapping[str, Any], source_size: int, target_size: int) -> Any:
    """Luong's translator."""
    if not has_contract():
        config = first("nmt.models.config").ModelConfig(**options)
        return first("nmt.models.translator").Translator(config, source_size, target_size)
    registry = first("nmt.models.registry")
    tables = first("nmt.models.contract").Tables((source_size,), target_size)
    return registry.make_model(registry.MODELS["luong"].config(**options), tables)


def forward(model: Any, parameters: Any, batch: Any, rng: np.random.Generator) -> Any:
    """Loss and cache, with fresh dropout masks."""
    if not has_contract():
        return model.loss(parameters, batch, rng)
    return model.loss(parameters, batch, model.noise(batch, rng, "float32"))


def search(model: Any, parameters: Any, words: list[list[int]], options: Any) -> Any:
    """The hypotheses of beam search."""
    batches, beam = first("nmt.text.batches", "nmt.data.batches"), first("nmt.search.beam")
    if not has_contract():
        return beam.beam_search(model, parameters, *batches.source_batch(words, False), options)
    return beam.beam_search(model, parameters, batches.make_sources(words, False), options)


def make_batch(pairs: list[Any]) -> Any:
    """A batch of pairs of ids."""
    batches = first("nmt.text.batches", "nmt.data.batches")
    return batches.make_batch(pairs, range(len(pairs)), False)


# --- the work -------------------------------------------------------------------------------------


def parameters_of(model: Any, scale: float) -> dict[str, np.ndarray]:
    """Uniform parameters in float32; a Weight's shape is a tuple of sizes."""
    rng = np.random.default_rng(1)
    return {name: rng.uniform(-scale, scale, weight.shape).astype(np.float32)
            for name, weight in model.weights().items()}


def step(size: Mapping[str, Any]) -> Run:
    """A training step: forward, backward, clip, update; the loss of a word."""
    rng, train = np.random.default_rng(2), first("nmt.training.optimizers")
    model = make_model(size["model"], *size["vocabularies"])
    parameters = parameters_of(model, 0.1)
    optimizer = getattr(train, size["optimizer"])(LEARNING_RATE)
    B, S, T = size["batch"], size["source"], size["target"]
    sources, targets = (rng.integers(2, V, (B, n)).tolist() for V, n in
                        zip(size["vocabularies"], (S, T - 1), strict=True))
    batch = make_batch(list(zip(sources, targets, strict=True)))

    def run() -> float:
        loss, cache = forward(model, parameters, batch, rng)
        gradients = model.backward(cache)
        scale, _ = train.gradient_scale(gradients, B, MAX_NORM)
        optimizer.update(parameters, gradients, scale)
        return float(loss) / (B * T)

    return run


def layer(size: Mapping[str, Any]) -> Run:
    """An LSTM layer, forward and backward, E = H."""
    T, B, H = size["steps"], size["batch"], size["hidden"]
    stack, rng = first("lstm.stack"), np.random.default_rng(1)
    x, dh = (rng.normal(size=(T, B, H)).astype(np.float32) for _ in range(2))
    weights = rng.uniform(-H**-0.5, H**-0.5, (4 * H, 2 * H)).astype(np.float32)
    bias, zero = weights[:, 0].copy(), np.zeros((B, H), np.float32)
    parameters = {"rnn.0.T": weights, "rnn.0.W": weights, "rnn.0.b": bias}
    workspace = first("backend.workspace").Workspace()

    def run() -> float:
        h, _, cache = stack.stack_forward(x, parameters, "rnn", "lstm", [[(zero, zero)]],
                                          workspace=workspace)
        dx = stack.stack_backward(dh, None, cache)[0]
        return float(h[-1, -1, -1]) + float(dx[0, 0, 0])

    return run


def beam(size: Mapping[str, Any]) -> Run:
    """Beam search of sentences that never end; the best log-probability."""
    V, steps = size["vocabulary"], size["steps"]
    interface, vocabulary = first("nmt.search.interface"), first("nmt.text.vocabulary",
                                                                 "nmt.data.vocabulary")
    model = make_model(size["model"] | {"output_bias": True}, V, V)
    parameters = parameters_of(model, 0.2)
    bias = next(a for name, a in parameters.items() if name.startswith("output") and a.ndim == 1)
    bias[vocabulary.END] = NEVER
    rng = np.random.default_rng(2)
    words = rng.integers(2, V, (size["sentences"], size["source"])).tolist()
    options = interface.SearchOptions(beam=size["beam"], nbest=size["beam"], length_factor=1e-9,
                                      minimum_steps=steps)

    def run() -> float:
        return float(search(model, parameters, words, options)[0][0].log_probability) / steps

    return run


def adam(size: Mapping[str, Any]) -> Run:
    """An update of dense parameters."""
    rng, train = np.random.default_rng(1), first("nmt.training.optimizers")
    parameters, gradients = ({f"W{k}": rng.normal(size=shape).astype(np.float32)
                              for k, shape in enumerate(size["shapes"])} for _ in range(2))
    optimizer = train.Adam(LEARNING_RATE)

    def run() -> float:
        optimizer.update(parameters, gradients, 1.0)
        return float(parameters["W0"][0, 0])

    return run


WORK: dict[str, Callable[[Mapping[str, Any]], Run]] = {
    "step": step, "layer": layer, "beam": beam, "adam": adam}


def serve() -> None:
    """Commands from stdin, answers to stdout, a line of JSON each.

    `{"prepare": kind, "size": {...}}` makes the work and runs it once: its number, its seconds.
    `{"calls": n}` runs it n times: the seconds of one.
    """
    run: Run | None = None
    for line in sys.stdin:
        command = json.loads(line)
        if "prepare" in command:
            run = None  # its arrays go before the next ones come
            run = WORK[command["prepare"]](command["size"])
            value = run()
        assert run is not None
        calls = command.get("calls", 1)
        start = time.perf_counter()
        for _ in range(calls):
            last = run()
        seconds = (time.perf_counter() - start) / calls
        answer = {"seconds": seconds, "value": value if "prepare" in command else last}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
