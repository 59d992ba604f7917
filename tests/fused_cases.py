"""Calls of every function that has a fused kernel: plain and strided, masked, at awkward sizes."""

from __future__ import annotations

import pkgutil
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import backend
from backend.rows import row_index
from nmt.training.optimizers import OPTIMIZERS

TOLERANCE = {"float64": 1e-14, "float32": 2e-6}
SIZES = [(1, 1), (3, 5), (2, 300), (7, 64)]  # rows and width; 256 threads make a block


class Case(NamedTuple):
    """Arguments of one call; arrays that the function overwrites are compared afterwards."""

    function: str  # module.name, or module.Class.name
    arguments: tuple[Any, ...]
    scratch: tuple[int, ...] = ()  # arguments that only one of the two writes to


def draw(rng, rows, width, strided=False):
    """A matrix; strided, a block of columns of a wider one."""
    if not strided:
        return rng.normal(size=(rows, width))
    return rng.normal(size=(rows, width + 3))[:, 2 : 2 + width]


def padding(rng, rows, which):
    """A mask (rows, 1), a view of a larger array."""
    full = {"some": rng.random((2, rows, 1)) < 0.5, "all": np.ones((2, rows, 1), bool)}[which]
    return full[1]


def cells(rng, rows, H, strided):
    """The recurrent cells."""
    def m(width):
        return draw(rng, rows, width, strided)

    for b in (None, rng.normal(size=4 * H)):
        yield Case("lstm.cells.lstm.lstm_forward",
                   (m(4 * H), m(4 * H), b, m(H), (m(H), m(H)), m(H)))
    for d_out in (None, m(H)):
        yield Case("lstm.cells.lstm.lstm_backward",
                   (m(H), m(H), d_out, m(4 * H), m(H), m(H), m(4 * H)), (0,))
    for a_h, b in ((m(H), None), (m(H), rng.normal(size=H)), (None, rng.normal(size=H))):
        yield Case("lstm.cells.cell.add_recurrent", (m(H), a_h, b))
    for pad in (padding(rng, rows, "some"), padding(rng, rows, "all")):
        yield Case("lstm.recurrent.copy_through", (pad, (m(H),), (m(H),)))
        yield Case("lstm.recurrent.copy_through", (pad, (m(H), m(H)), (m(H), m(H))))
    yield Case("backend.pointwise.tanh_slope", (m(H), m(H), m(H)))
    yield Case("lstm.cells.gru.gru_gates_forward", (m(3 * H), m(2 * H), m(H), m(H)))
    yield Case("lstm.cells.gru.gru_state_forward", (m(3 * H), m(H), m(H)))
    yield Case("lstm.cells.gru.gru_state_backward", (m(H), m(3 * H), m(H), m(3 * H)))
    yield Case("lstm.cells.gru.gru_gates_backward", (m(H), m(H), m(3 * H), m(H), m(3 * H)))
    for b in (None, rng.normal(size=4 * H)):
        yield Case("lstm.cells.gru_after.gru_after_forward",
                   (m(3 * H), m(3 * H), b, m(H), m(H), m(H)))
    yield Case("lstm.cells.gru_after.gru_after_backward",
               (m(H), m(3 * H), m(H), m(H), m(3 * H), m(3 * H)))
    for mask in (None, m(2 * H + 1)):
        yield Case("attention.attention.join", (m(H), m(H + 1), mask, m(2 * H + 1)))
        yield Case("attention.attention.join_backward", (m(2 * H + 1), mask, m(H)))


def softmaxes(rng, rows, width, strided):
    """Softmax over positions, and cross-entropy."""
    shape = (rows, 2, width)
    few, some = rng.random((width, rows, 1)) < 0.5, rng.random(shape) < 0.5
    few[0], some[..., -1] = False, False  # never all masked; few: (S, B, 1), like padding
    for mask in (None, few.transpose(1, 2, 0), some):
        yield Case("attention.scores.softmax_forward", (3.0 * rng.normal(size=shape), mask))
    yield Case("attention.scores.softmax_backward",
               (rng.normal(size=shape), rng.dirichlet(np.ones(width), (rows, 2))))
    causal = np.arange(width) > np.arange(rows)[:, None]
    heads = rng.normal(size=(4, rows, width))  # two sentences with two heads each
    for masked in (None, few[:, :1].transpose(1, 2, 0).repeat(2, 0), causal[None]):
        for mask in (None, 1.25 * (rng.random(heads.shape) < 0.8)):
            yield Case("attention.multihead.heads_softmax_forward", (heads, 0.3, masked, mask))
    for mask in (None, 1.25 * (rng.random(heads.shape) < 0.8)):
        yield Case("attention.multihead.heads_softmax_backward",
                   (heads, rng.dirichlet(np.ones(width), (4, rows)), 0.3, mask))
    targets = rng.integers(0, width, rows)
    for b in (None, rng.normal(size=width)):
        s = 20.0 * draw(rng, rows, width, strided)
        yield Case("lstm.prediction.cross_entropy", (s, targets, rng.normal(size=rows), b))
        yield Case("lstm.smoothing.smoothed_cross_entropy",
                   (s.copy(), targets, rng.normal(size=rows), rng.normal(size=rows), 0.1, b))


def norms(rng, rows, width, strided):
    """Norms of vectors, one of them shorter than eps."""
    x, dy = (rng.normal(size=(2, rows, width)) for _ in range(2))
    short = x * np.where(np.arange(rows) == 0, 1e-7, 1.0)[:, None]
    g, b, radius = rng.normal(size=width), rng.normal(size=width), rng.normal(size=1)
    for kind, weights in (("layer", (g, b)), ("rms", (g,)), ("scale", (radius,)),
                          ("scale", (2.5,))):
        name = f"attention.norms.{kind}_norm"
        argument = short if kind == "scale" else x
        yield Case(f"{name}_forward", (argument, *weights))
        _, cache = function_of(f"{name}_forward").__wrapped__(argument, *weights)
        yield Case(f"{name}_backward", (dy, cache))


def tables(rng, rows, width, strided):
    """Look-ups and their gradients."""
    backwards = np.arange(rows)[::-1].copy()
    for ids in (rng.integers(0, rows, (3, 4)), np.full((2, 5), rows - 1), backwards):
        with backend.using("numpy"):
            index = row_index(ids)
        yield Case("backend.rows.gather_rows", (draw(rng, rows, width, strided), ids))
        yield Case("backend.rows.sum_segments",
                   (rng.normal(size=(ids.size, width)), index.order, index.starts))


def updates(rng, rows, width, strided):
    """Optimizers and the norm."""
    def m(count=rows):
        return rng.normal(size=(count, width))

    def kept(optimizer):
        return tuple(m() ** 2 for _ in optimizer.state_names)

    some = np.flatnonzero(rng.random(rows) < 0.5)
    for kind, decay in product(OPTIMIZERS.values(), (0.0, 0.2)):
        optimizer = kind(0.7, weight_decay=decay)
        move, factor = "nmt.training.optimizers.Optimizer.update_", np.array(0.3)
        for count in (1, 3):
            states = [(m(), *kept(optimizer)) for _ in range(count)]
            yield Case(f"{move}dense", (optimizer, states, [m() for _ in states], factor, 3))
        for ids in (some if some.size else np.array([rows - 1]), np.arange(rows)):
            yield Case(f"{move}rows", (optimizer, (m(), *kept(optimizer)), ids, m(len(ids)), factor,
                                       3))
    yield Case("nmt.training.moving_average.move_averages",
               ([m(), m(2)], [m(), m(2)], 0.3))
    yield Case("nmt.training.optimizers.gradient_norm", ([m(), m(2), rng.normal(size=3)],))


FUSED = {"cells": cells, "softmax": softmaxes, "norms": norms, "tables": tables, "updates": updates}


def function_of(path):
    return pkgutil.resolve_name(path)


def cast(tree, dtype):
    """Copies of all real arrays in `dtype`; views of wider arrays stay such views."""
    if isinstance(tree, np.ndarray):
        if tree.dtype != np.float64:
            return tree
        if tree.ndim == 2 and not tree.flags.c_contiguous:
            padded = np.empty((tree.shape[0], tree.shape[1] + 3), dtype)
            view = padded[:, 2 : 2 + tree.shape[1]]
            view[...] = tree
            return view
        return tree.astype(dtype)
    if isinstance(tree, (list, tuple)):
        items = [cast(item, dtype) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree


def leaves(tree, scratch=()):
    """The arrays of nested arguments, in order, without scratch."""
    if isinstance(tree, np.ndarray):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [leaf for place, item in enumerate(tree) if place not in scratch
                for leaf in leaves(item)]
    return []


def function_returns(case):
    """Whether the function returns its result; then it may leave its arguments as they are."""
    name = case.function.rsplit(".", 1)[1]
    return name.endswith("softmax_forward") or "_norm" in name or name in (
        "gather_rows", "sum_segments", "copy_through")


def assert_close(pairs, dtype):
    """Each array of the first of a pair equals that of the second, masks and ids to the bit."""
    for actual, expected in pairs:
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(actual, expected, rtol=50 * TOLERANCE[dtype],
                                       atol=TOLERANCE[dtype])
        else:
            np.testing.assert_array_equal(actual, expected)
