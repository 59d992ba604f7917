"""Multi-head attention: against the derivation and PyTorch; masks, arguments."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, assert_close, assert_same_gradients, draw

from attention.memory import padding_mask
from attention.multihead import (
    by_heads,
    causal_mask,
    heads_forward,
    multihead_backward,
    multihead_forward,
    multihead_weights,
)
from grads.check import check_gradients
from grads.derivations.multihead import (
    Head,
    head_forward,
    head_forward_grad,
    heads_of,
    multihead,
    multihead_grad,
    parameters_of,
    softmax_rows,
    softmax_rows_grad,
)
from lstm.parameters import uniform

D, LENGTHS, T = 6, np.array([4, 1, 3]), 3  # width; number of keys; number of queries
S, B = int(LENGTHS.max()), len(LENGTHS)
CASES = [(heads, kind, dropout) for heads in (1, 2, 6) for kind in ("words", "future", "all")
         for dropout in (False, True)]
VARIED = pytest.mark.parametrize("heads, kind, dropout", CASES)


class Drawn:
    """Inputs of one kind of attention: to a padded memory, to the past, or to a whole memory."""

    def __init__(self, heads, kind, dropout, dtype=np.float64):
        rng, self.heads, self.itself = np.random.default_rng(7), heads, kind == "future"
        weights = multihead_weights("m", D, heads, uniform(0.1))
        self.parameters = {name: draw(rng, weight.shape, dtype) for name, weight in weights.items()}
        self.x, self.dy = draw(rng, (T, B, D), dtype), draw(rng, (T, B, D), dtype)
        self.memory = self.x if self.itself else draw(rng, (S, B, D), dtype)
        steps = len(self.memory)
        self.dead = {"words": padding_mask(LENGTHS, S), "future": causal_mask(T), "all": None}[kind]
        self.mask = 2.0 * (rng.random((B * heads, T, steps)) < 0.5) if dropout else None

    def forward(self, x=None, memory=None, parameters=None):
        x = self.x if x is None else x
        memory = x if self.itself else self.memory if memory is None else memory
        return multihead_forward("m", parameters or self.parameters, x, memory, self.heads,
                                 self.dead, self.mask)

    def backward(self, dy, cache):
        """Gradients by name. In self-attention, queries and keys share one gradient."""
        dx, dmemory, gradients = multihead_backward(dy, cache)
        return {**gradients, **({"x": dx + dmemory} if self.itself
                                else {"x": dx, "memory": dmemory})}

    def literal(self, b):
        """The derivation's arguments for a sentence."""
        X = self.memory[:, b]
        dead = np.zeros((T, len(X)), bool)
        if self.dead is not None:
            dead = dead | self.dead[b if len(self.dead) > 1 else 0]
        D = (np.ones((self.heads, T, len(X))) if self.mask is None
             else self.mask.reshape(B, self.heads, T, -1)[b])
        return (self.x[:, b], X, heads_of(self.parameters, "m", self.heads),
                self.parameters["m.W_o"].T, self.parameters["m.b_o"][None], dead,
                dict(enumerate(D, start=1)))


# --- against the derivation -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@VARIED
def test_kernels_are_the_derivation(heads, kind, dropout, dtype):
    drawn = Drawn(heads, kind, dropout, dtype)
    y, cache = drawn.forward()
    gradients = drawn.backward(drawn.dy, cache)
    expected = {name: np.zeros_like(gradient) for name, gradient in gradients.items()}
    for b in range(B):
        arguments = drawn.literal(b)
        Z, trace = multihead(*arguments)
        assert_close(y[:, b], Z)
        dY, dX, *weights = multihead_grad(drawn.dy[:, b], *arguments, trace)
        expected["x"][:, b] += dY
        expected["x" if drawn.itself else "memory"][:, b] += dX
        for name, d in parameters_of("m", *weights).items():
            expected[name] += d
    assert_same_gradients(gradients, expected)


@pytest.mark.parametrize("heads", [1, 2])
def test_derivations(heads):
    """Of one head and of many, with respect to all inputs, with dropped weights and masked
    places."""
    Y, X, head_weights, W_O, b_O, *rest = Drawn(heads, "words", True).literal(2)
    dZ = np.random.default_rng(3).normal(size=Y.shape)
    names = [f"{name}{i}" for i in head_weights for name in Head._fields]

    def loss(a):
        drawn = {i: Head(*(a[f"{name}{i}"] for name in Head._fields)) for i in head_weights}
        return (dZ * multihead(a["Y"], a["X"], drawn, a["W_O"], a["b_O"], *rest)[0]).sum()

    arguments = (Y, X, head_weights, W_O, b_O, *rest)
    dY, dX, d_heads, dW_O, db_O = multihead_grad(dZ, *arguments, multihead(*arguments)[1])
    inputs, gradients = ({"Y": y, "X": x, "W_O": w, "b_O": b, **dict(zip(
        names, [leaf for head in heads_.values() for leaf in head], strict=True))}
        for y, x, heads_, w, b in (arguments[:5], (dY, dX, d_heads, dW_O, db_O)))
    check_gradients(loss, inputs, gradients).raise_if_wrong()


def test_one_head_of_the_derivation():
    Y, X, heads, *_, dead, dropped = Drawn(1, "words", True).literal(0)
    head, D = heads[1], dropped[1]
    dH = np.random.default_rng(3).normal(size=(T, X.shape[1]))
    trace = head_forward(Y, X, head, dead, D)[1]
    dY, dX, d_head = head_forward_grad(dH, Y, X, head, dead, D, trace)

    def loss(a):
        changed_head = head._replace(W_V=a["W_V"])
        return (dH * head_forward(a["Y"], a["X"], changed_head, dead, D)[0]).sum()

    check_gradients(
        loss,
        {"Y": Y, "X": X, "W_V": head.W_V}, {"Y": dY, "X": dX, "W_V": d_head.W_V}).raise_if_wrong()


def test_softmax_of_rows():
    E, dA = np.random.default_rng(1).normal(size=(2, 3, 4))
    check_gradients(lambda a: (dA * softmax_rows(a["E"])).sum(), {"E": E},
                    {"E": softmax_rows_grad(softmax_rows(E), dA)}).raise_if_wrong()


# --- masks, copies, arguments ---------------------------------------------------------------------


def test_padding_and_the_future_are_not_attended_to():
    """The results are bit-identical whatever these places hold, and their gradients are zero."""
    drawn = Drawn(2, "words", False)
    y, cache = drawn.forward()
    dmemory = drawn.backward(drawn.dy, cache)["memory"]
    changed = drawn.memory.copy()
    for b, length in enumerate(LENGTHS):
        changed[length:, b] = 1e6
        assert not dmemory[length:, b].any()
    np.testing.assert_array_equal(drawn.forward(memory=changed)[0], y)
    drawn = Drawn(2, "future", False)
    y, _ = drawn.forward()
    changed = drawn.x.copy()
    changed[2:] = 1e6
    np.testing.assert_array_equal(drawn.forward(changed)[0][:2], y[:2])


def test_there_is_no_mask_without_padding():
    assert padding_mask(np.array([3, 3]), 3) is None
    np.testing.assert_array_equal(padding_mask(np.array([1, 3]), 3)[0], [[False, True, True]])
    np.testing.assert_array_equal(causal_mask(2)[0], [[False, True], [False, False]])


def test_heads_are_views():
    x = np.arange(24.0).reshape(2, 3, 4)
    assert np.shares_memory(by_heads(x, 2), x)
    np.testing.assert_array_equal(by_heads(x, 2)[3], x[:, 1, 2:])  # sentence 1, head 1


def test_large_scores_stay_finite():
    q = np.full((1, 1, 2), 1e3)
    c, _ = heads_forward(q, np.stack([q[0], 0 * q[0]]), np.array([[[1.0, 2.0]], [[5.0, 5.0]]]), 1)
    np.testing.assert_array_equal(c, [[[1.0, 2.0]]])


@pytest.mark.parametrize("heads", [0, 4])
def test_heads_that_do_not_divide_the_width_are_named(heads):
    with pytest.raises(ValueError, match=f"heads: expected a divisor of the width 6, got {heads}"):
        multihead_weights("m", 6, heads, uniform(0.1))


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads, kind", [(2, "words"), (3, "future"), (1, "all")])
def test_pytorch(heads, kind):
    """torch.nn.MultiheadAttention with our weights gives the same; its bias of the keys changes
    nothing."""
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle (extra `oracle`)")
    drawn = Drawn(heads, kind, False)
    p = {name.removeprefix("m."): torch.tensor(array) for name, array in drawn.parameters.items()}
    module = torch.nn.MultiheadAttention(D, heads, dtype=torch.float64)
    module.load_state_dict({
        "in_proj_weight": torch.cat([p["W_q"], p["W_k"], p["W_v"]]),
        "in_proj_bias": torch.cat([p["b_q"], torch.ones(D), p["b_v"]]),
        "out_proj.weight": p["W_o"], "out_proj.bias": p["b_o"]})
    x = torch.tensor(drawn.x, requires_grad=True)
    memory = x if drawn.itself else torch.tensor(drawn.memory, requires_grad=True)
    dead = None if drawn.dead is None else torch.tensor(drawn.dead)
    y, _ = module(x, memory, memory, key_padding_mask=dead[:, 0] if kind == "words" else None,
                  attn_mask=dead[0] if kind == "future" else None)
    y.backward(torch.tensor(drawn.dy))
    actual, cache = drawn.forward()
    gradients = drawn.backward(drawn.dy, cache)
    assert_close(actual, y.detach().numpy())
    expected = {"x": x.grad, "m.W_o": module.out_proj.weight.grad,
                "m.b_o": module.out_proj.bias.grad}
    for letter, W, b in zip("qkv", module.in_proj_weight.grad.chunk(3),
                            module.in_proj_bias.grad.chunk(3), strict=True):
        expected |= {f"m.W_{letter}": W, f"m.b_{letter}": b}
    expected |= {} if drawn.itself else {"memory": memory.grad}
    assert expected.pop("m.b_k").abs().max() < 1e-13  # PyTorch's bias of the keys has no effect
    assert_same_gradients(gradients, {name: d.numpy() for name, d in expected.items()})
