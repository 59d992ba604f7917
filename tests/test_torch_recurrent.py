"""Recurrent units and stacks against PyTorch's cells and automatic differentiation, in float64."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from torch_oracle import (
    BATCHES,
    BLOCKS,
    STATES,
    E,
    H,
    as_padding,
    assert_close,
    backpropagate,
    cell,
    choices,
    draw,
    leaf,
    sequence,
    torch,
)

from lstm.lstm import lstm_backward, lstm_forward, lstm_step_backward, lstm_step_forward
from lstm.rnn import rnn_backward, rnn_forward, rnn_step_backward, rnn_step_forward
from lstm.stack import stack_backward, stack_forward, stack_weights


@pytest.mark.parametrize("bias, B", list(product((True, False), (3, 1))))
def test_rnn_step(bias, B):
    rng = np.random.default_rng(1)
    x, h_prev, T, dh = draw(rng, B, E), draw(rng, B, H), draw(rng, H, E + H), draw(rng, B, H)
    b = draw(rng, H) if bias else None
    h, cache = rnn_step_forward(x, h_prev, T, b)
    gradients = rnn_step_backward(dh, cache)
    leaves = [leaf(a) for a in (x, h_prev, T)] + ([leaf(b)] if bias else [None])
    (theirs,) = cell("rnn", leaves[0], (leaves[1],), leaves[2], leaves[3])
    assert_close(h, theirs)
    backpropagate([theirs], [dh])
    for ours, argument in zip(gradients[: 4 if bias else 3], leaves, strict=False):
        assert_close(ours, argument)


@pytest.mark.parametrize("bias, B", list(product((True, False), (3, 1))))
def test_lstm_step(bias, B):
    rng = np.random.default_rng(2)
    arrays = [draw(rng, B, E), draw(rng, B, H), draw(rng, B, H), draw(rng, 4 * H, E + H)]
    b = [draw(rng, 4 * H)] if bias else []
    for dh, dc in choices([draw(rng, B, H), draw(rng, B, H)]):
        out, cache = lstm_step_forward(*arrays, *b)
        gradients = lstm_step_backward(
            *(np.zeros((B, H)) if d is None else d for d in (dh, dc)), cache
        )
        leaves = [leaf(a) for a in arrays + b]
        x, h_prev, c_prev, T, *theirs_b = leaves
        theirs = cell("lstm", x, (h_prev, c_prev), T, theirs_b[0] if bias else None)
        for ours, other in zip(out, theirs, strict=True):
            assert_close(ours, other)
        backpropagate(theirs, [dh, dc])
        for ours, argument in zip(gradients, leaves, strict=False):
            assert_close(ours, argument)


def run_sequence(unit, x, state, T, b, upstream, clip=None, **how):
    """Our forward and backward of a unit; upstream is of h and of each last state."""
    if unit == "lstm":
        h, last, cache = lstm_forward(x, *state, T, b, **how)
        return (h, *last), lstm_backward(*upstream, cache, clip=clip)
    h, last, cache = rnn_forward(x, *state, T, b, **how)
    return (h, last), rnn_backward(*upstream, cache, clip=clip)


@pytest.mark.parametrize(
    "unit, batch, reverse, bias",
    list(product(("lstm", "rnn"), BATCHES, (False, True), (True, False))),
)
def test_sequence(unit, batch, reverse, bias):
    (steps, B, lengths), rng = batch, np.random.default_rng(3)
    G, states = BLOCKS[unit] * H, STATES[unit]
    x, T = draw(rng, steps, B, E), draw(rng, G, E + H)
    b = draw(rng, G) if bias else None
    state = [draw(rng, B, H) for _ in range(states)]
    for upstream in choices([draw(rng, steps, B, H)] + [draw(rng, B, H) for _ in range(states)]):
        outputs, gradients = run_sequence(
            unit, x, state, T, b, upstream, padding=as_padding(lengths, steps), reverse=reverse
        )
        leaves = [leaf(a) for a in (x, *state, T)]
        theirs_b = leaf(b) if bias else None
        h, last = sequence(
            unit, leaves[0], tuple(leaves[1:-1]), leaves[-1], theirs_b, lengths, reverse
        )
        for ours, theirs in zip(outputs, (h, *last), strict=True):
            assert_close(ours, theirs)
        backpropagate((h, *last), upstream)
        for ours, theirs in zip(gradients, [*leaves, theirs_b][: len(leaves) + bias], strict=False):
            assert_close(ours, theirs)


@pytest.mark.parametrize("unit, reverse", list(product(("lstm", "rnn"), (False, True))))
def test_element_wise_clipping(unit, reverse):
    """dh_t, from above and from later steps together, is cut off at tau (section 2.2.2)."""
    steps, B, rng = 5, 3, np.random.default_rng(4)
    G, states = BLOCKS[unit] * H, STATES[unit]
    x, T = draw(rng, steps, B, E), draw(rng, G, E + H)
    state = [draw(rng, B, H) for _ in range(states)]
    upstream = [draw(rng, steps, B, H)] + [draw(rng, B, H) for _ in range(states)]
    how = {"padding": None, "reverse": reverse}
    _, clipped = run_sequence(unit, x, state, T, None, upstream, **how, clip=0.4)
    _, unclipped = run_sequence(unit, x, state, T, None, upstream, **how)
    assert np.abs(clipped[0] - unclipped[0]).max() > 0.01
    leaves = [leaf(a) for a in (x, *state, T)]
    h, last = sequence(
        unit, leaves[0], tuple(leaves[1:-1]), leaves[-1], None, None, reverse, clip=0.4
    )
    backpropagate((h, *last), upstream)
    for ours, theirs in zip(clipped, leaves, strict=False):
        assert_close(ours, theirs)


def reference_stack(unit, x, parameters, initial, lengths, masks):
    """Layers on layers of `sequence`, directions side by side, masks on the inputs."""
    last = []
    for layer, states in enumerate(initial):
        x = x if masks is None else x * torch.tensor(masks[layer])
        ends = [".forward", ".backward"] if len(states) == 2 else [""]
        runs = []
        for end, state in zip(ends, states, strict=True):
            T, b = (parameters.get(f"s.{layer}{end}.{name}") for name in "Tb")
            runs.append(sequence(unit, x, state, T, b, lengths, reverse=end == ".backward"))
        x = torch.cat([h for h, _ in runs], dim=2)
        last.append([state for _, state in runs])
    return x, last


@pytest.mark.parametrize(
    "unit, bidirectional, dropout, batch",
    list(product(("lstm", "rnn"), (False, True), (False, True), BATCHES)),
)
def test_stack(unit, bidirectional, dropout, batch):
    (steps, B, lengths), rng = batch, np.random.default_rng(5)
    directions = 2 if bidirectional else 1
    x = draw(rng, steps, B, E)
    weights = stack_weights("s", unit, 2, E, H, bidirectional=bidirectional, biases=not dropout)
    parameters = {name: draw(rng, *weight.shape) for name, weight in weights.items()}

    def draw_states():
        one = [[draw(rng, B, H) for _ in range(STATES[unit])] for _ in range(2 * directions)]
        return [[tuple(s) for s in one[:directions]], [tuple(s) for s in one[directions:]]]

    initial, d_last, dh = draw_states(), draw_states(), draw(rng, steps, B, directions * H)
    widths = (E, directions * H)
    masks = [(rng.random((steps, B, w)) < 0.7) / 0.7 for w in widths] if dropout else None
    for dh_out, d_states in choices([dh, d_last]):
        h, last, cache = stack_forward(
            x, parameters, "s", unit, initial, padding=as_padding(lengths, steps), masks=masks
        )
        dx, d_initial, gradients = stack_backward(dh_out, d_states, cache)
        leaves = {name: leaf(a) for name, a in parameters.items()}
        x_leaf = leaf(x)
        states = [[tuple(map(leaf, s)) for s in layer] for layer in initial]
        h_theirs, last_theirs = reference_stack(unit, x_leaf, leaves, states, lengths, masks)
        assert_close(h, h_theirs)
        outputs, upstream = [h_theirs], [dh_out]
        for layer, d in product(range(2), range(directions)):
            outputs += last_theirs[layer][d]
            upstream += d_states[layer][d] if d_states else [None] * STATES[unit]
            for ours, theirs in zip(last[layer][d], last_theirs[layer][d], strict=True):
                assert_close(ours, theirs)
        backpropagate(outputs, upstream)
        assert_close(dx, x_leaf)
        for layer, d in product(range(2), range(directions)):
            for ours, theirs in zip(d_initial[layer][d], states[layer][d], strict=True):
                assert_close(ours, theirs)
        assert gradients.keys() == leaves.keys()
        for name, ours in gradients.items():
            assert_close(ours, leaves[name])
