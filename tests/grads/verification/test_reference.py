"""The references in PyTorch against the models: the loss and every gradient, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the oracle (extra `oracle`)")

from backend.rows import RowGradient  # noqa: E402
from grads.verification.reference import REFERENCES, gradients  # noqa: E402
from grads.verification.reference.fused import fused, unfused  # noqa: E402
from nmt.models.contract import Tables  # noqa: E402
from nmt.models.registry import MODELS  # noqa: E402
from nmt.text.batches import Batch, Side, make_batch  # noqa: E402

TOLERANCE = 1e-10
V, SIZES = 6, {"hidden_size": 2, "embedding_size": 3}  # all different
REVERSED = ("ragged", "one word")  # shapes whose sources are, so that positions count from the end
SHAPES = {"ragged": (5, 3, 1), "full": (3, 3), "one sentence": (4,), "one word": (1, 1)}
NEVER, ACTING = 1e6, 0.1  # limits of clipping: beyond every element of dh, and within many

Options = dict[str, Any]
Choices = dict[str, tuple[Any, ...]]

# --- every configuration --------------------------------------------------------------------------

RECURRENT: Choices = {"unit": ("lstm", "rnn", "gru"), "layers": (1, 2), "dropout": (0.0, 0.3),
                      "clip_dh": (None, NEVER), "output_bias": (False, True)}
CHOICES: list[tuple[str, Choices]] = [
    ("language_model", RECURRENT | {"biases": (True, False)}),
    ("luong", RECURRENT | {
        "bidirectional": (False, True), "bridge": (False, True), "attention": ("none", "global"),
        "score": ("dot", "general"), "input_feeding": (False, True)}),
    ("luong", {
        "layers": (1, 2), "bidirectional": (False, True), "bridge": (True,), "biases": (False,),
        "attention": ("global", "local-m", "local-p"), "window": (1,), "location_length": (3,),
        "score": ("dot", "general", "concat", "location", "additive"),
        "concat_identity": (False, True), "renormalise": (False, True),
        "input_feeding": (False, True)}),
    ("rnnsearch", {
        "context": ("search", "last"), "unit": ("gru", "rnn"), "layer": ("maxout", "tanh"),
        "deep_state": ("before", "now"), "biases": (False, True), "output_bias": (False, True),
        "clip_dh": (None, NEVER), "layer_size": (5,)}),
]


def configurations() -> Iterator[tuple[str, Options]]:
    """The products of all choices, without what a configuration refuses."""
    for architecture, choices in CHOICES:
        for values in product(*choices.values()):
            options = dict(zip(choices, values, strict=True))
            if (options.get("attention"), options.get("score")) == ("none", "dot"):
                continue  # as with any other score
            try:
                MODELS[architecture].config(**options)
            except ValueError:
                continue
            yield architecture, options


def describe(value: Any) -> str | None:
    """Options as a test's name."""
    return "-".join(map(str, value.values())) if isinstance(value, dict) else None


# --- a model, its batch, and what both say of it --------------------------------------------------


class Run(NamedTuple):
    """A model at random parameters, with a batch and the product's loss and gradients."""

    config: Any
    parameters: dict[str, np.ndarray]
    batch: Batch
    noise: Any
    loss: float
    gradients: dict[str, np.ndarray]
    options: Options  # of the reference


def run(architecture: str, shape: str, **options: Any) -> Run:
    """The product's side."""
    rng, reverse, entry = np.random.default_rng(3), shape in REVERSED, MODELS[architecture]
    config = entry.config(**SIZES | options)
    model = entry.build(config, Tables((V,) * entry.sources, V, reverse))
    parameters = {name: rng.normal(scale=0.7, size=weight.shape)
                  for name, weight in model.weights().items()}
    batch = (random_batch(rng, SHAPES[shape], reverse) if entry.sources
             else random_stream(rng, shape, config))
    noise = model.noise(batch, rng, "float64")
    loss, cache = model.loss(parameters, batch, noise)
    found = {name: np.asarray(d.dense() if isinstance(d, RowGradient) else d)
             for name, d in model.backward(cache).items()}
    more = {"reverse_source": reverse} if architecture == "luong" else {}
    return Run(config, parameters, batch, noise, float(loss), found, more)


def random_batch(rng: np.random.Generator, lengths: tuple[int, ...], reverse: bool) -> Batch:
    """Sentence pairs, targets of other lengths than their sources; one may be empty."""
    pairs = [(rng.integers(2, V, m).tolist(), rng.integers(2, V, n - 1).tolist())
             for m, n in zip(lengths, np.roll(lengths, 1).tolist(), strict=True)]
    return make_batch(pairs, range(len(pairs)), reverse_source=reverse)


def random_stream(rng: np.random.Generator, shape: str, config: Any) -> Batch:
    """A piece of text that goes on where another ended, and the first piece of one."""
    B, T = len(SHAPES[shape]), max(SHAPES[shape])
    states = 2 if config.unit == "lstm" else 1
    state = [tuple(rng.normal(size=(B, config.hidden_size)) for _ in range(states))
             for _ in range(config.layers)]
    target = Side(rng.integers(0, V, (T + 1, B)), np.full(B, T))
    return Batch((), target, np.arange(B), state=None if shape == "full" else state)


def assert_equal(run: Run, loss: float, expected: dict[str, np.ndarray]) -> None:
    """The same loss; gradients equal beside their largest element, or both of rounding alone."""
    assert run.loss == pytest.approx(loss, rel=TOLERANCE)
    assert set(run.gradients) == set(expected) == set(run.parameters)
    for name, gradient in expected.items():
        size = max(np.abs(gradient).max(), 1e-3)
        np.testing.assert_allclose(run.gradients[name], gradient, rtol=0, atol=TOLERANCE * size,
                                   err_msg=name)


@pytest.mark.parametrize("architecture, options", list(configurations()), ids=describe)
def test_every_configuration(architecture, options):
    for shape in SHAPES:
        made = run(architecture, shape, **options)
        assert_equal(made, *gradients(architecture, made.config, made.parameters, made.batch,
                                      made.noise, **made.options))


CLIPPED = [  # layers above one another, both directions, feeding, contexts
    *(("luong", {"unit": unit, "input_feeding": False} | more)
      for unit in ("lstm", "rnn", "gru")
      for more in ({}, {"bidirectional": True, "bridge": True})),
    *(("luong", {"unit": unit}) for unit in ("lstm", "rnn")),
    *(("language_model", {"unit": unit}) for unit in ("lstm", "rnn", "gru")),
    *(("rnnsearch", {"unit": unit, "context": context, "layer_size": 5})
      for unit in ("gru", "rnn") for context in ("search", "last")),
]


@pytest.mark.parametrize("architecture, options", CLIPPED, ids=describe)
def test_clipping_that_acts(architecture, options):
    """Element-wise clipping of dh is no gradient; both sides clip the same dh (section 2.2.2)."""
    made = run(architecture, "ragged", **options, clip_dh=ACTING)
    loss, expected = gradients(architecture, made.config, made.parameters, made.batch, made.noise,
                               **made.options)
    assert_equal(made, loss, expected)
    free = replace(made.config, clip_dh=None)
    _, unclipped = gradients(architecture, free, made.parameters, made.batch, made.noise,
                             **made.options)
    table = next(name for name in expected if name.endswith("W_e"))
    assert np.abs(unclipped[table] - expected[table]).max() > 0.01


FUSED = [
    ("luong", {"input_feeding": False}),
    ("luong", {"dropout": 0.3}),
    ("luong", {"unit": "rnn", "score": "concat"}),
    ("luong", {"unit": "rnn", "input_feeding": False, "bidirectional": True, "bridge": True}),
    ("luong", {"input_feeding": False, "bidirectional": True, "bridge": True, "biases": False}),
    ("language_model", {"layers": 1, "dropout": 0.3}),
    ("language_model", {"unit": "rnn", "biases": False}),
]


@pytest.mark.parametrize("shape", ["ragged", "full"])
@pytest.mark.parametrize("architecture, options", FUSED, ids=describe)
def test_the_kernels_of_pytorch(architecture, options, shape):
    """Layers that PyTorch's kernels run give the same loss, and gradients in their layout."""
    made = run(architecture, shape, **options)
    leaves = in_their_layout(made)
    assert not any(name.endswith(".T") for name in leaves)
    loss = REFERENCES[architecture](made.config, leaves, made.batch, made.noise, **made.options)
    found = torch.autograd.grad(loss, list(leaves.values()))
    expected = unfused(made.config.unit, dict(zip(leaves, found, strict=True)))
    assert_equal(made, loss.item(), {name: d.numpy() for name, d in expected.items()})


def in_their_layout(made: Run) -> dict[str, Any]:
    tensors = {name: torch.tensor(value) for name, value in made.parameters.items()}
    return {name: leaf.requires_grad_() for name, leaf in
            fused(made.config.unit, tensors).items()}


def test_the_kernels_of_pytorch_do_not_clip():
    made = run("luong", "full", clip_dh=ACTING)
    with pytest.raises(ValueError, match="clip_dh: expected none"):
        REFERENCES["luong"](made.config, in_their_layout(made), made.batch)
