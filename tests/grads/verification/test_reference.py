"""The references in PyTorch against the models: the loss and every gradient, in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the oracle (extra `oracle`)")

from grads.case import SHAPES, dense  # noqa: E402
from grads.catalogue import CONFIGURATIONS, rnnsearch  # noqa: E402
from grads.catalogue.configurations import language_model, translator  # noqa: E402
from grads.verification.reference import REFERENCES, gradients  # noqa: E402
from grads.verification.reference.recurrent import fused  # noqa: E402

ENTRIES = [*CONFIGURATIONS, *(e for e in rnnsearch.ENTRIES if e.kind == "rnnsearch")]
TOLERANCE = 1e-10
LIMIT = 0.1  # of clipping that acts on some elements of dh here, and not on others


class Stream(NamedTuple):
    inputs: np.ndarray
    targets: np.ndarray
    state: list[tuple[np.ndarray, ...]]


def make(maker, shape="ragged", seed=3, **options):
    """A case of the catalogue, the loss of the product and its gradients by name."""
    case = maker(np.random.default_rng(seed), SHAPES[shape], **options)
    loss = case.forward(case.inputs)["loss"]
    return case, loss, case.backward(case.inputs, {"loss": np.ones(())})


def arguments(case) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The case as its reference takes it: architecture, batch and noise, options."""
    facts = case.facts
    if "targets" in facts:
        batch = Stream(facts["ids"], facts["targets"], facts["states"])
        noise = sites("rnn", facts["masks"]) | {"output": facts["out_mask"]}
        return "language_model", (batch, noise), {}
    if "encoder_masks" in facts:
        noise = sites("encoder", facts["encoder_masks"]) | sites("decoder", facts["decoder_masks"])
        noise |= {"joined": facts["joined_mask"]}
        return "luong", (facts["batch"], noise), {"reverse_source": facts["reverse"]}
    return "rnnsearch", (facts["batch"],), {}


def sites(prefix, masks):
    return {f"{prefix}.{l}": mask for l, mask in enumerate(masks)}


def assert_equal(case, loss, found, expected_loss, expected):
    """Equal relative to each tensor's largest element; what is zero may be rounded."""
    assert loss == pytest.approx(expected_loss, rel=TOLERANCE)
    assert set(found) == set(expected) == set(case.inputs)
    for name, gradient in expected.items():
        size = np.abs(gradient).max(initial=0.0)
        np.testing.assert_allclose(dense(found[name]), gradient, rtol=0,
                                   atol=TOLERANCE * max(size, 1e-3), err_msg=name)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_configuration(entry):
    for shape in entry.shapes:
        case, loss, found = make(entry.make, shape)
        architecture, given, options = arguments(case)
        expected = gradients(architecture, case.facts["config"], case.inputs, *given, **options)
        assert_equal(case, loss, found, *expected)


ACTING = [  # where clipping happens: layers above one another, both directions, feeding, contexts
    *((translator, {"unit": unit, "input_feeding": False} | more)
      for unit in ("lstm", "rnn", "gru")
      for more in ({}, {"bidirectional": True, "bridge": True})),
    *((translator, {"unit": unit}) for unit in ("lstm", "rnn")),
    *((language_model, {"unit": unit}) for unit in ("lstm", "rnn", "gru")),
    *((rnnsearch.rnnsearch, {"unit": unit, "context": context})
      for unit in ("gru", "rnn") for context in ("search", "last")),
]


@pytest.mark.parametrize("maker, options", ACTING, ids=str)
def test_clipping_that_acts(maker, options):
    """Element-wise clipping of dh is no gradient: the reference clips dh as PyTorch has it."""
    case, loss, found = make(maker, **options, clip_dh=LIMIT)
    architecture, given, more = arguments(case)
    expected = gradients(architecture, case.facts["config"], case.inputs, *given, **more)
    assert_equal(case, loss, found, *expected)
    _, _, unclipped = make(maker, **options)
    assert any(not np.allclose(unclipped[name], expected[1][name]) for name in found)


FUSED = {
    "translator": (translator, {"input_feeding": False}),
    "feeding": (translator, {"dropout": 0.3}),
    "both directions, no bias": (
        translator, {"bidirectional": True, "bridge": True, "biases": False,
                     "input_feeding": False}),
    "language model": (language_model, {"layers": 1, "dropout": 0.3}),
}


@pytest.mark.parametrize("shape", ["ragged", "full"])
@pytest.mark.parametrize("maker, options", FUSED.values(), ids=FUSED)
def test_the_kernel_of_pytorch(maker, options, shape):
    """An LSTM that is run by PyTorch's kernel has the loss and gradients of the formulas."""
    case, loss, found = make(maker, shape, **options)
    architecture, given, more = arguments(case)
    config, leaves = case.facts["config"], {
        name: torch.tensor(value, requires_grad=True) for name, value in case.inputs.items()}
    prefixes = {"encoder", "rnn"} if getattr(config, "input_feeding", False) else {
        "encoder", "decoder", "rnn"}
    parameters = fused(leaves, prefixes)
    assert any(name.endswith("weight_hh") for name in parameters)
    expected = REFERENCES[architecture](config, parameters, *given, **more)
    of_leaves = torch.autograd.grad(expected, list(leaves.values()))
    assert_equal(case, loss, found, expected.item(),
                 dict(zip(leaves, (d.numpy() for d in of_leaves), strict=True)))
