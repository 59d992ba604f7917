"""Translators made of parts: each equals its kernel, and every part is in one of them."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, dense, draw_parameters, total

from grads.derivations import decoders, encoders, reading, units
from grads.derivations.translator import translator_backward, translator_forward
from grads.stepper.explorer import parts
from grads.verification.completeness import called_by
from nmt.data.batches import make_batch
from nmt.models.deep_fusion_config import DeepFusionConfig
from nmt.models.heads.deep_output import DeepOutput
from nmt.models.heads.fusion import Fusion
from nmt.models.heads.state_output import StateOutput
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig, Translator

V, E, H = 8, 3, 2
SENTENCES = [([2, 4, 2, 5, 7], [3, 2]), ([6, 3], [4, 4, 5]), ([3], [])]
KINDS = [
    {"bidirectional": True, "bridge": True, "layers": 2},
    {"unit": "gru", "layers": 2, "attention": "local-p", "window": 1},
    {"unit": "rnn", "attention": "none", "biases": False},
    {"unit": "gru", "attention": "none", "input_feeding": False},
]
READERS = [
    (DeepOutput, RNNSearchConfig, {"unit": "rnn", "layer": "tanh", "query": "state-word"}),
    (DeepOutput, RNNSearchConfig, {"context": "last", "deep_state": "now"}),
    (StateOutput, RNNSearchConfig,
     {"unit": "rnn", "context": "last", "layer": "none", "deep_state": "now"}),
    (StateOutput, RNNSearchConfig, {"layer": "none", "deep_state": "now", "biases": False}),
    (Fusion, DeepFusionConfig, {"lm_unit": "rnn", "lm_layers": 2}),
    (Fusion, DeepFusionConfig, {"layer": "tanh", "unit": "rnn", "deep_state": "now"}),
]
PARTS = {
    decoders: ["decode_plain", "decode_plain_grad", "decode_attending", "decode_attending_grad"],
    encoders: ["encode", "encode_grad", "encode_once", "encode_once_grad", "encode_both",
               "encode_both_grad", "hand_over_grad", "bridge", "bridge_grad", "first_state",
               "first_state_grad"],
    reading: ["the_last", "the_last_grad", "reading_step", "reading_step_grad", "read_contexts",
              "read_contexts_grad", "decode_reading", "decode_reading_grad",
              "decode_states", "decode_states_grad", "decode_fused", "decode_fused_grad"],
    units: ["rnn_step", "rnn_step_grad", "gru_step", "gru_step_grad", "deep_step",
            "deep_step_grad"],
}


def luong(reverse=False, **options):
    config = ModelConfig(hidden_size=H, embedding_size=E, **{"layers": 1, **options})
    return Translator(config, V, V, reverse), parts.translator(config, reverse)


def reader(head, config, options):
    sizes = {"hidden_size": H, "embedding_size": E, "layer_size": 2}
    sizes |= {"lm_hidden_size": 3, "lm_embedding_size": 2} if head is Fusion else {}
    sizes_and_options = config(**sizes, **options)
    return RNNSearch(sizes_and_options, V, V, head=head), parts.search(sizes_and_options)


def literal(model, parameters, reverse):
    """Loss and gradients by the derivation, sentence after sentence."""
    losses, gradients = 0.0, []
    for x, y in SENTENCES:
        words = x[::-1] if reverse else x
        loss, trace = translator_forward(parameters, words, y, model=model)
        losses += loss
        gradients.append(translator_backward(parameters, words, y, trace))
    return losses, total(gradients)


def check(kernel, model, reverse=False):
    parameters = draw_parameters(np.random.default_rng(9), kernel.weights())
    loss, cache = kernel.loss(parameters, make_batch(SENTENCES, range(len(SENTENCES)), reverse))
    expected, gradients = literal(model, parameters, reverse)
    assert_close(loss, expected)
    assert_same_gradients(
        {name: dense(d) for name, d in kernel.backward(cache).items()}, gradients, 1e-11)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_the_kernel_is_the_derivation(options, reverse):
    check(*luong(reverse, **options), reverse)


@pytest.mark.parametrize(("kind", "config", "options"), READERS, ids=str)
def test_readers_of_a_context(kind, config, options):
    check(*reader(kind, config, options))


def test_every_part_is_in_one_of_them():
    def run():
        for options in KINDS:
            check(*luong(**options))
        for case in READERS:
            check(*reader(*case))

    called = called_by(run)
    assert [name for module, names in PARTS.items() for name in names
            if getattr(module, name).__code__ not in called] == []
