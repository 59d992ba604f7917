"""The references in PyTorch against the models: the loss and every gradient, in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the oracle (extra `oracle`)")

from grads.verification.cases import model_case  # noqa: E402
from grads.verification.catalogue import (  # noqa: E402
    Entry,
    architectures,
    entries,
    random_model,
)
from grads.verification.reference import (  # noqa: E402
    gradients,
    luong,
    options_of,
    reference_of,
)
from grads.verification.reference.fused import fused, unfused  # noqa: E402
from grads.verification.rules import gradients_of  # noqa: E402
from lstm.cells import CELLS  # noqa: E402

TOLERANCE = 1e-10
ACTING = 0.01  # a clipping limit that many elements of dh and dc exceed
EVERY = 64  # every n-th of all configurations; `grads matrix` compares all
FIRST = {(entry.architecture, entry.shape): entry for entry in reversed(entries())}
COMPARED = [entry for entry in (  # the usual configurations at all shapes, the others at one
    *(entry for entry in entries("tiny")
      if entry.shape == "ragged" or entry == FIRST[entry.architecture, "late padding"]),
    *(entry for n, entry in enumerate(entries("real"))
      if n % 4 == 0 or entry == FIRST[entry.architecture, "real"]),
    *entries("every")[::EVERY]) if reference_of(architectures()[entry.architecture].config)]
TINY = {entry.architecture: entry for entry in reversed(entries("tiny"))}  # as usual, ragged


class Run(NamedTuple):
    """A model at random parameters, with a batch and the product's loss and gradients."""

    config: Any
    parameters: dict[str, np.ndarray]
    batch: Any
    noise: Any
    loss: float
    gradients: dict[str, np.ndarray]
    reference: Any
    options: dict[str, Any]  # of the reference


def run(entry: Entry) -> Run:
    """Run the product's model."""
    drawn = random_model(entry)
    case = model_case(drawn)
    reference = reference_of(type(drawn.model.config))
    return Run(drawn.model.config, drawn.parameters, drawn.batch, drawn.noise,
               float(case.outputs(case.inputs)["loss"]), gradients_of(case),
               reference, options_of(reference, drawn.tables))


def variant(architecture: str, shape: str = "ragged", **options: Any) -> Entry:
    """An entry that the catalogue may not have."""
    usual = TINY[architecture]
    return usual._replace(shape=shape, options=usual.options | options)


def describe(value: Any) -> str | None:
    """A test's name made of options."""
    return "-".join(map(str, value.values())) if isinstance(value, dict) else None


def assert_equal(run: Run, loss: float, expected: dict[str, np.ndarray]) -> None:
    """Assert the same loss, and gradients that are equal relative to their largest element, or mere
    rounding."""
    assert run.loss == pytest.approx(loss, rel=TOLERANCE)
    assert set(run.gradients) == set(expected) == set(run.parameters)
    for name, gradient in expected.items():
        size = max(np.abs(gradient).max(), 1e-3)
        np.testing.assert_allclose(run.gradients[name], gradient, rtol=0, atol=TOLERANCE * size,
                                   err_msg=name)


@pytest.mark.parametrize("entry", COMPARED, ids=lambda entry: entry.name)
def test_the_catalogue(entry):
    product = run(entry)
    assert_equal(product,
                 *gradients(product.reference, product.config, product.parameters, product.batch,
                            product.noise, **product.options))


CLIPPED = [  # layers above one another, both directions, feeding, contexts
    *(("luong", {"unit": unit, "input_feeding": False} | extras)
      for unit in CELLS for extras in ({}, {"bidirectional": True, "bridge": True})),
    *(("luong", {"unit": unit, "hidden_size": 3}) for unit in CELLS),
    *(("language_model", {"unit": unit}) for unit in CELLS),
    ("luong", {"residual": True}), ("luong", {"residual": True, "input_feeding": False}),
    ("language_model", {"residual": True}),
    *(("rnnsearch", {"unit": unit, "context": context})
      for unit in ("gru", "gru-after", "rnn") for context in ("search", "last")),
]


@pytest.mark.parametrize("limit", [ACTING, 0.1])
@pytest.mark.parametrize("architecture, options", CLIPPED, ids=describe)
def test_clipping_that_acts(architecture, options, limit):
    """Element-wise clipping does not give a gradient; both implementations clip the same dh and dc
    (2.2.2)."""
    product = run(variant(architecture, **options, clip_elements=limit))
    loss, expected = gradients(product.reference, product.config, product.parameters,
                               product.batch, product.noise,
                               **product.options)
    assert_equal(product, loss, expected)
    free = replace(product.config, clip_elements=None)
    _, unclipped = gradients(product.reference, free, product.parameters, product.batch,
                             product.noise,
                             **product.options)
    table = next(name for name in expected if name.endswith("W_e"))
    assert np.abs(unclipped[table] - expected[table]).max() > 0.01


@pytest.mark.parametrize("weights", ["inverse", "equal"])
@pytest.mark.parametrize("architecture, options", [
    ("luong", {"dropout": 0.3}), ("luong", {"output_bias": True}), ("rnnsearch", {}),
    ("deep_fusion", {})], ids=describe)
def test_a_sampled_vocabulary(architecture, options, weights):
    """The softmax over a few words, weighted (Jean et al., 2015)."""
    product = run(variant(architecture, **options, target_sample=1, sample_weights=weights))
    sample = product.noise["output.sample"]
    assert 0 < np.count_nonzero(sample) < len(sample)
    assert_equal(product,
                 *gradients(product.reference, product.config, product.parameters, product.batch,
                            product.noise, **product.options))


FUSED = [
    ("luong", {"input_feeding": False}),
    ("luong", {"dropout": 0.3}),
    ("luong", {"unit": "rnn", "score": "concat"}),
    ("luong", {"unit": "rnn", "input_feeding": False, "bidirectional": True, "bridge": True}),
    ("luong", {"input_feeding": False, "bidirectional": True, "bridge": True, "biases": False}),
    ("language_model", {"layers": 1, "dropout": 0.3}),
    ("language_model", {"unit": "rnn", "biases": False}),
    ("luong", {"unit": "gru-after", "input_feeding": False, "bidirectional": True, "bridge": True}),
    ("language_model", {"unit": "gru-after", "biases": False}),
]


@pytest.mark.parametrize("shape", ["ragged", "full"])
@pytest.mark.parametrize("architecture, options", FUSED, ids=describe)
def test_the_kernels_of_pytorch(architecture, options, shape):
    """Layers that PyTorch's kernels run give the same loss, and gradients in their layout."""
    product = run(variant(architecture, shape, **options))
    leaves = in_their_layout(product)
    assert not any(name.endswith(".W") for name in leaves if not name.startswith("bridge"))
    loss = product.reference(product.config, leaves, product.batch, product.noise,
                             **product.options)
    their_gradients = torch.autograd.grad(loss, list(leaves.values()))
    expected = unfused(product.config.unit, dict(zip(leaves, their_gradients, strict=True)))
    assert_equal(product, loss.item(), {name: d.numpy() for name, d in expected.items()})


def in_their_layout(product: Run) -> dict[str, Any]:
    tensors = {name: torch.tensor(value) for name, value in product.parameters.items()}
    return {name: leaf.requires_grad_() for name, leaf in
            fused(product.config.unit, tensors).items()}


def test_the_kernels_of_pytorch_do_not_clip():
    product = run(variant("luong", "full", clip_elements=ACTING))
    with pytest.raises(ValueError, match="clip_elements: expected none"):
        luong.loss(product.config, in_their_layout(product), product.batch)
