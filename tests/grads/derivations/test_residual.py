"""A step of a stack with residual connections is that of the kernel."""

from __future__ import annotations

import numpy as np
from literal import assert_close, draw

from grads.derivations.residual import residual, residual_grad
from lstm.stack import Stack, stack_backward, stack_forward

E, H, L = 3, 2, 3
NAMES = ("h", "c", "T", "b")


def inputs():
    rng = np.random.default_rng(1)
    shapes = {"x": (E, 1)}
    for l in range(1, L + 1):
        shapes |= {f"h{l}": (H, 1), f"c{l}": (H, 1), f"b{l}": (4 * H, 1),
                   f"T{l}": (4 * H, (H if l > 1 else E) + H)}
    return {name: draw(rng, shape) for name, shape in shapes.items()}


def arguments(a):
    return a["x"], *({l: a[f"{name}{l}"] for l in range(1, L + 1)} for name in NAMES)


def backward(d, a):
    dx, *layers = residual_grad(d, *arguments(a))
    return {"x": dx, **{f"{name}{l}": of_layer for name, of in zip(NAMES, layers, strict=True)
                        for l, of_layer in of.items()}}


def test_it_is_the_stack_of_the_kernels():
    """The output of the top layer, and all gradients."""
    a = inputs()
    _, h, c, T, b = arguments(a)
    parameters = {f"s.{l - 1}.W": T[l] for l in T} | {f"s.{l - 1}.b": b[l][:, 0] for l in b}
    top, _, cache = stack_forward(a["x"].T[None], parameters, "s",
                                  Stack("lstm", len(h), H, residual=True),
                                  [[(h[l].T, c[l].T)] for l in h])
    assert_close(top[0], residual(*arguments(a)).T)
    d = draw(np.random.default_rng(2), (H, 1))
    dx, d_initial, gradients = stack_backward(d.T[None], None, cache)
    expected = backward(d, a)
    assert_close(dx[0], expected["x"].T)
    for l, [(dh, dc)] in enumerate(d_initial, start=1):
        assert_close(dh, expected[f"h{l}"].T)
        assert_close(dc, expected[f"c{l}"].T)
        assert_close(gradients[f"s.{l - 1}.W"], expected[f"T{l}"])
        assert_close(gradients[f"s.{l - 1}.b"], expected[f"b{l}"][:, 0])
