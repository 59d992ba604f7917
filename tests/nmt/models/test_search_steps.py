"""`encode`, `step` and `select` give the probabilities in `loss`."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import LUONG, RNNSEARCH, VARIANTS
from literal import assert_close, draw_parameters
from strict.module import strict, to_numpy, to_strict

import backend
from nmt.data.batches import make_batch, make_sources
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig, Translator

MODELS = LUONG | VARIANTS | RNNSEARCH
SHALLOW = [name for name in MODELS if name not in VARIANTS or MODELS[name]["layers"] == 1]
V_S, V_T, E, H, K = 7, 8, 3, 2, 3
SOURCES = [[2, 4, 2, 5], [6, 3], [3]]
# K targets of equal length for each source: hypotheses of one sentence end together
TARGETS = [[[3, 2], [2, 2], [7, 4]], [[4, 4, 5, 2], [5, 2, 3, 6], [2, 3, 2, 3]], [[], [], []]]
END = 1
REVERSE = True


def make(name):
    model: Translator | RNNSearch
    if name in RNNSEARCH:
        model = RNNSearch(RNNSearchConfig(hidden_size=H, embedding_size=E, layer_size=4,
                                          **RNNSEARCH[name]), V_S, V_T)
    else:
        config = ModelConfig(hidden_size=H, embedding_size=E, **MODELS[name] | {"dropout": 0.0})
        model = Translator(config, V_S, V_T, REVERSE)
    return model, draw_parameters(np.random.default_rng(6), model.weights())


def attends(model):
    """Whether there is an alignment."""
    if isinstance(model, RNNSearch):
        return model.config.searches
    return model.config.attention != "none"


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def follow(model, parameters, seed=None):
    """-log p(y | x) (3, K) by steps, and the alignments.

    Hypotheses are widened from one to K, shuffled within their sentence after every step, and a
    sentence is dropped with its last word.
    """
    rng = np.random.default_rng(seed)
    nats, alignments = np.zeros((len(SOURCES), K)), []
    state = model.encode(parameters, make_sources(SOURCES, REVERSE), 3)
    active = np.arange(len(SOURCES))
    state = model.select(state, np.repeat(active, K), active)
    order = np.tile(np.arange(K), (len(SOURCES), 1))  # which target each row follows
    tokens = np.full(len(active) * K, END)
    for t in range(5):
        logits, state, alignment = model.step(parameters, state, tokens)
        log_p = log_softmax(backend.to_host(logits)).reshape(len(active), K, V_T)
        words = [[[*TARGETS[b][k], END][t] for k in order[b]] for b in active]
        for i, b in enumerate(active):
            nats[b, order[b]] -= log_p[i, np.arange(K), words[i]]
            if alignment is not None:
                alignments += [(b, a) for a in backend.to_host(alignment)[i * K : (i + 1) * K]]
        stays = np.array([t < len(TARGETS[b][0]) for b in active])
        if not stays.any():
            return nats, alignments
        moves = np.stack([rng.permutation(K) for _ in active])
        rows = (np.arange(len(active))[:, None] * K + moves)[stays].reshape(-1)
        tokens = np.array(words).reshape(-1)[rows]
        for i, b in enumerate(active):
            order[b] = order[b][moves[i]]
        kept = np.flatnonzero(stays)
        state, active = model.select(state, rows, kept), active[kept]
    raise AssertionError("sentences remain")


@pytest.mark.parametrize("name", MODELS)
def test_steps_are_the_loss(name):
    """For every hypothesis, in any order, with sentences dropping out."""
    model, parameters = make(name)
    nats, alignments = follow(model, parameters, seed=1)
    for b, x in enumerate(SOURCES):
        for k in range(K):
            loss, _ = model.loss(parameters, make_batch([(x, TARGETS[b][k])], [0], REVERSE))
            assert_close(nats[b, k], loss)
    assert bool(alignments) is attends(model)
    for b, a in alignments:
        assert not a[len(SOURCES[b]) :].any()
        if model.config.attention == "global":
            if model.config.score != "location":
                np.testing.assert_allclose(a.sum(), 1.0, rtol=1e-14)
            known = model.config.location_length if model.config.score == "location" else None
            assert (a[: len(SOURCES[b])][:known] > 0).all()
        else:
            assert 0.0 <= a.sum() < 1.0 + 1e-14 and (a > 0).sum() <= 2 * model.config.window + 1


@pytest.mark.parametrize("name", SHALLOW)
def test_steps_on_the_stand_in(name):
    """The numbers are the same, and only this test's requests leave the device."""
    model, parameters = make(name)
    expected, alignments = follow(model, parameters, seed=2)
    with backend.using(strict):
        strict.counts.reset()
        nats, alignments_there = follow(model, to_strict(parameters), seed=2)
    steps = 1 + max(len(target) for ys in TARGETS for target in ys)
    assert strict.counts.to_host == steps + len(alignments) // K
    assert strict.counts.syncs == 0
    assert_close(nats, expected)
    for (_, ours), (_, theirs) in zip(alignments_there, alignments, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SHALLOW)
def test_states_are_not_written_into(name):
    """A state can be used for two steps and a selection afterwards."""
    model, parameters = make(name)
    state = model.encode(parameters, make_sources(SOURCES, REVERSE), 3)
    kept = to_numpy(to_strict(state))
    first, after, _ = model.step(parameters, state, np.full(3, END))
    model.step(parameters, after, np.array([2, 3, 4]))
    model.encode(parameters, make_sources([[2, 3]], REVERSE), 1)
    second, _, _ = model.step(parameters, state, np.full(3, END))
    np.testing.assert_array_equal(first, second)
    swapped = model.select(state, np.array([2, 1, 0]), np.arange(3))
    if name in RNNSEARCH:
        np.testing.assert_array_equal(swapped.s, kept.s[::-1])
        return
    for layer, old in zip(swapped.layers, kept.layers, strict=True):
        for ours, theirs in zip(layer, old, strict=True):
            np.testing.assert_array_equal(ours, theirs[::-1])
