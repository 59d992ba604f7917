"""Look-ups, predictions, attention and bridge against PyTorch's automatic differentiation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from torch_oracle import (
    STATES,
    E,
    H,
    as_padding,
    assert_close,
    backpropagate,
    choices,
    draw,
    leaf,
    torch,
)

from attention.attend import (
    attend_backward,
    attend_forward,
    attend_memory_backward,
    attentional_backward,
    attentional_forward,
    memory_backward,
    memory_forward,
)
from attention.way import Way
from backend.rows import row_index
from backend.workspace import Workspace
from lstm.embedding import embedding_backward, embedding_forward
from lstm.prediction import CHUNK, prediction_backward, prediction_forward
from nmt.models.bridge import bridge_backward, bridge_forward, bridge_weights
from nmt.models.translator import ModelConfig
from lstm.prediction import output_backward, output_forward


def test_negative_control():
    """The comparison sees an error in the ninth digit of one entry, and a gradient of zeros."""
    theirs = torch.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    assert_close(theirs.numpy(), theirs)
    wrong = theirs.numpy().copy()
    wrong[1, 2] += 1e-9
    with pytest.raises(AssertionError):
        assert_close(wrong, theirs)
    with pytest.raises(AssertionError):
        assert_close(np.zeros(3), torch.zeros(3, dtype=torch.float64))


# --- embedding, prediction, output ------------------------------------------------------------


@pytest.mark.parametrize("shape, V", [((4, 5), 6), ((3, 2), 40), ((1, 1), 3)])
def test_embedding(shape, V):
    """Twenty ids out of six words: most occur several times."""
    rng = np.random.default_rng(6)
    W_e, dx, ids = draw(rng, V, E), draw(rng, *shape, E), rng.integers(0, V, shape)
    x, cache = embedding_forward(W_e, row_index(ids))
    rows = embedding_backward(dx, cache)
    theirs = leaf(W_e)
    out = torch.nn.functional.embedding(torch.tensor(ids), theirs)
    assert_close(x, out)
    backpropagate([out], [dx])
    assert_close(rows.dense(), theirs)
    assert sorted(rows.ids.tolist()) == sorted(set(ids.ravel().tolist()))


@pytest.mark.parametrize(
    "N, bias, d_loss", list(product((2 * CHUNK + 5, 1), (True, False), (1.0, -2.5)))
)
def test_prediction(N, bias, d_loss):
    rng = np.random.default_rng(7)
    V = 11
    h, W_hy, targets = draw(rng, N, H), draw(rng, V, H), rng.integers(0, V, N)
    b = draw(rng, V) if bias else None
    loss, cache = prediction_forward(h, targets, W_hy, b)
    dh, dW_hy, db = prediction_backward(cache, d_loss)
    leaves = [leaf(h), leaf(W_hy)] + ([leaf(b)] if bias else [])
    theirs = torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(*leaves), torch.tensor(targets), reduction="sum"
    )
    assert_close(loss, theirs)
    (d_loss * theirs).backward()
    for ours, other in zip((dh, dW_hy, db) if bias else (dh, dW_hy), leaves, strict=True):
        assert_close(ours, other)
    assert (db is None) == (not bias)


@pytest.mark.parametrize(
    "lengths, bias", list(product(((5, 2, 1), (5, 5, 5), (1,)), (True, False)))
)
def test_output(lengths, bias):
    """The loss is a sum over real words; padding has exactly no gradient."""
    rng = np.random.default_rng(8)
    steps, B, V = max(lengths), len(lengths), 7
    h, targets = draw(rng, steps, B, H), rng.integers(0, V, (steps, B))
    parameters = {"output.W_hy": draw(rng, V, H)} | ({"output.b": draw(rng, V)} if bias else {})
    workspace = Workspace()
    loss, cache = output_forward(h, targets, np.array(lengths), parameters, workspace)
    dh, gradients = output_backward(cache, workspace)
    h_leaf, leaves = leaf(h), {name: leaf(a) for name, a in parameters.items()}
    real = torch.arange(steps)[:, None] < torch.tensor(lengths)
    logits = h_leaf @ leaves["output.W_hy"].T + leaves.get("output.b", 0.0)
    nats = -torch.log_softmax(logits, dim=2).gather(2, torch.tensor(targets)[:, :, None])[:, :, 0]
    theirs = nats[real].sum()
    assert_close(loss, theirs)
    theirs.backward()
    assert_close(dh, h_leaf)
    assert not dh[~real.numpy()].any()
    assert gradients.keys() == leaves.keys()
    for name, ours in gradients.items():
        assert_close(ours, leaves[name])


# --- attention and bridge ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "score, Q, lengths",
    list(product(("dot", "general"), (1, 3), ((5, 3, 1), (5, 5, 5)))),
)
def test_attention(score, Q, lengths):
    """From encoder states and h_t to the context and back, through the memory."""
    rng = np.random.default_rng(9)
    S, B = 5, len(lengths)
    He = H if score == "dot" else 6
    states, h, dc = draw(rng, S, B, He), draw(rng, B, Q, H), draw(rng, B, Q, He)
    parameters = {"attention.W_a": draw(rng, H, He)} if score == "general" else {}
    memory = memory_forward(states, as_padding(lengths, S), Way(score), parameters, "attention")
    c, a = attend_forward(h, memory)
    dh, de = attend_backward(dc, a, memory)
    dhbar, dkeys = attend_memory_backward(de, dc, a, h)
    dstates, gradients = memory_backward(dhbar, dkeys, memory, parameters, "attention")
    states_leaf, h_leaf = leaf(states), leaf(h)
    leaves = {name: leaf(array) for name, array in parameters.items()}
    W_a = leaves.get("attention.W_a", torch.eye(H, dtype=torch.float64))
    scores = torch.einsum("bqh,he,sbe->bqs", h_leaf, W_a, states_leaf)  # h_t' W_a hbar_s
    real = torch.arange(S) < torch.tensor(lengths)[:, None, None]
    weights = torch.where(real, scores, -torch.inf).softmax(dim=2)
    context = torch.einsum("bqs,sbe->bqe", weights, states_leaf)
    assert_close(a, weights)
    assert not a[np.broadcast_to(~real.numpy(), a.shape)].any()
    assert_close(c, context)
    backpropagate([context], [dc])
    assert_close(dh, h_leaf)
    assert_close(dstates, states_leaf)
    assert not dstates[~real[:, 0].numpy().T].any()
    assert gradients.keys() == leaves.keys()
    for name, ours in gradients.items():
        assert_close(ours, leaves[name])


@pytest.mark.parametrize("score", ["dot", "general"])
def test_memory(score):
    """Random gradients at the states as values and as keys, separately and together."""
    rng = np.random.default_rng(10)
    S, B, He = 5, 3, H if score == "dot" else 6
    states = draw(rng, S, B, He)
    parameters = {"attention.W_a": draw(rng, H, He)} if score == "general" else {}
    for dhbar, dkeys in choices([draw(rng, B, S, He), draw(rng, B, S, H)]):
        memory = memory_forward(states, None, Way(score), parameters, "attention")
        dstates, gradients = memory_backward(
            np.zeros((B, S, He)) if dhbar is None else dhbar,
            np.zeros((B, S, H)) if dkeys is None else dkeys,
            memory, parameters, "attention",
        )  # fmt: skip
        states_leaf = leaf(states)
        leaves = {name: leaf(array) for name, array in parameters.items()}
        hbar = states_leaf.transpose(0, 1)
        keys = hbar @ leaves["attention.W_a"].T if leaves else hbar
        assert_close(memory.hbar, hbar)
        assert_close(memory.keys, keys)
        backpropagate([hbar, keys], [dhbar, dkeys])
        assert_close(dstates, states_leaf)
        for name, ours in gradients.items():
            if dkeys is None:
                assert not ours.any()
            else:
                assert_close(ours, leaves[name])


@pytest.mark.parametrize("N", [6, 1])
def test_attentional_vector(N):
    rng = np.random.default_rng(11)
    joined, W_c, upstream = draw(rng, N, 6 + H), draw(rng, H, 6 + H), draw(rng, N, H)
    h_tilde = attentional_forward(joined, W_c)
    djoined, dz = attentional_backward(upstream, h_tilde, W_c)
    leaves = [leaf(joined), leaf(W_c)]
    theirs = torch.nn.functional.linear(*leaves).tanh()
    assert_close(h_tilde, theirs)
    backpropagate([theirs], [upstream])
    assert_close(djoined, leaves[0])
    assert_close(dz.T @ joined, leaves[1])


@pytest.mark.parametrize(
    "unit, bidirectional, bridge",
    [(u, *how) for u in ("lstm", "rnn") for how in ((False, False), (False, True), (True, True))],
)
def test_bridge(unit, bidirectional, bridge):
    rng = np.random.default_rng(12)
    layers, B, n, directions = 2, 3, STATES[unit], 2 if bidirectional else 1
    config = ModelConfig(
        unit=unit, layers=layers, hidden_size=H, bidirectional=bidirectional, bridge=bridge
    )
    shapes = {name: weight.shape for name, weight in bridge_weights(config).items()}
    parameters = {name: draw(rng, *shape) for name, shape in shapes.items()}
    last = [
        [tuple(draw(rng, B, H) for _ in range(n)) for _ in range(directions)] for _ in range(layers)
    ]
    d_states = [tuple(draw(rng, B, H) for _ in range(n)) for _ in range(layers)]
    states, cache = bridge_forward(last, parameters, config)
    d_last, gradients = bridge_backward(d_states, cache, parameters, config)
    leaves = {name: leaf(array) for name, array in parameters.items()}
    ends = [[tuple(map(leaf, state)) for state in layer] for layer in last]
    assert gradients.keys() == leaves.keys()
    for layer in range(layers):
        joined = [torch.cat([ends[layer][d][k] for d in range(directions)], 1) for k in range(n)]
        if bridge:
            z = torch.cat(joined, 1) @ leaves[f"bridge.{layer}.W"].T
            joined = list(z.tanh().split(H, dim=1))
        for ours, theirs in zip(states[layer], joined, strict=True):
            assert_close(ours, theirs + 0.0)
        backpropagate([j + 0.0 for j in joined], d_states[layer])
        for d, k in product(range(directions), range(n)):
            assert_close(d_last[layer][d][k], ends[layer][d][k])
    for name, ours in gradients.items():
        assert_close(ours, leaves[name])
