"""The stand-in for CuPy refuses what it should, and computes as NumPy what it allows."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from strict.module import HostTransferError, StrictArray, strict, to_numpy, to_strict

import backend


@pytest.fixture(autouse=True)
def _fresh_counts() -> None:
    strict.counts.reset()


@pytest.fixture
def a() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


TRANSFERS: dict[str, Callable[[Any], Any]] = {
    "float": lambda s: float(s.sum()),
    "int": lambda s: int(s.argmax()),
    "complex": lambda s: complex(s.sum()),
    "bool": lambda s: bool(s.sum() > 0),
    "if": lambda s: 1 if (s > 0).all() else 0,
    "in": lambda s: 0.0 in s[0],
    "index": lambda s: [1, 2, 3][s.argmax()],
    "range": lambda s: range(s.argmax()),
    "slice": lambda s: s[: s.argmax()],
    "loop": lambda s: [float(value) for value in s[0]],
    "item": lambda s: s.sum().item(),
    "tolist": lambda s: s.tolist(),
    "tobytes": lambda s: s.tobytes(),
    "format": lambda s: f"{s.sum():.2f}",
    "str": lambda s: str(s),
    "pickle": lambda s: s.__reduce_ex__(4),
    "asarray": lambda s: np.asarray(s),
    "np.array": lambda s: np.array([s, s]),
    "np.exp": lambda s: np.exp(s),
    "np.sum": lambda s: np.sum(s),
    "array + host": lambda s: s + np.ones(3, np.float32),
    "host + array": lambda s: np.ones(3, np.float32) + s,
    "host @ array": lambda s: np.ones((3, 4), np.float32) @ s,
    "array += host": lambda s: s.__iadd__(np.ones(3, np.float32)),
    "array == host": lambda s: s == np.ones(3),
    "function of host": lambda s: strict.maximum(s, np.zeros((4, 3))),
    "only host": lambda s: strict.sum(np.zeros(3)),
    "host in a list": lambda s: strict.stack([s, np.zeros((4, 3))]),
    "host as out": lambda s: strict.tanh(s, out=np.zeros((4, 3), np.float32)),
    "host in out tuple": lambda s: strict.tanh(s, out=(np.zeros((4, 3), np.float32),)),
    "host as index": lambda s: s[np.array([0, 1])],
    "host as mask": lambda s: s[np.ones(4, bool)],
    "take by host": lambda s: strict.take(s, np.array([0, 1]), axis=0),
    "assign host": lambda s: s.__setitem__(slice(None), np.zeros((4, 3))),
    "at with host": lambda s: strict.add.at(s, strict.arange(4), np.zeros((4, 3))),
    "wide scalar": lambda s: s * np.float64(0.5),
    "wide scalar first": lambda s: np.float64(0.5) * s,
    "wide integer": lambda s: strict.add(s, np.int64(2)),
    "wide where": lambda s: strict.where(s > 0, s, np.float64(0)),
}


@pytest.mark.parametrize("name", TRANSFERS)
def test_unasked_transfer_is_refused(name: str, a: np.ndarray) -> None:
    with pytest.raises(HostTransferError):
        TRANSFERS[name](to_strict(a))
    assert (strict.counts.to_host, strict.counts.to_device) == (0, 0)


NOT_CUPY: dict[str, tuple[type[Exception], str, Callable[[Any], Any]]] = {
    "vecdot": (AttributeError, "has no 'vecdot'", lambda s: strict.vecdot(s, s)),
    "errstate": (AttributeError, "has no 'errstate'", lambda s: strict.errstate(all="raise")),
    "fuse": (AttributeError, "not offered", lambda s: strict.fuse),
    "random": (AttributeError, "not offered", lambda s: strict.random),
    "method": (AttributeError, "no 'argwhere'", lambda s: s.argwhere()),
    "take mode": (TypeError, "mode", lambda s: strict.take(s, strict.arange(2), mode="clip")),
    "max initial": (TypeError, "initial", lambda s: strict.max(s, initial=0.0)),
    "max method": (TypeError, "initial", lambda s: s.max(axis=0, initial=0.0)),
    "sum where": (TypeError, "where", lambda s: strict.sum(s, where=s > 0)),
    "ufunc where": (TypeError, "where", lambda s: strict.exp(s, where=s > 0)),
    "argsort stable": (TypeError, "stable", lambda s: strict.argsort(s, stable=True)),
    "clip min": (TypeError, "min", lambda s: strict.clip(s, min=0.0)),
    "einsum out": (TypeError, "out", lambda s: strict.einsum("ij->i", s, out=s[:, 0])),
    "list operand": (TypeError, "list", lambda s: strict.add(s, [1.0, 2.0, 3.0])),
    "list argument": (TypeError, "device array", lambda s: strict.sum([1.0, 2.0])),
    "scalar joined": (TypeError, "joined", lambda s: strict.concatenate([s[0], 1.0])),
    "list assigned": (TypeError, "list", lambda s: s.__setitem__(0, [1.0, 2.0, 3.0])),
    "bool index": (TypeError, "bool", lambda s: s[True]),
    "hash": (TypeError, "unhashable", lambda s: {s}),
    "strings": (ValueError, "dtype", lambda s: strict.asarray(["a"])),
    "complex logaddexp": (TypeError, "complex", lambda s: strict.logaddexp(s * 1j, 0.0)),
    "complex clip": (TypeError, "complex", lambda s: strict.clip(s * 1j, -1.0, 1.0)),
    "complex add.at": (TypeError, "complex", lambda s: strict.add.at(s * 1j, strict.arange(2), s)),
    "multiply.at": (NotImplementedError, "at", lambda s: strict.multiply.at(s, 0, 2.0)),
    "maximum.reduce": (NotImplementedError, "reduce", lambda s: strict.maximum.reduce(s)),
    "maximum.reduceat": (NotImplementedError, "reduceat",
                         lambda s: strict.maximum.reduceat(s, strict.arange(2))),
    "maximum.accumulate": (NotImplementedError, "acc", lambda s: strict.maximum.accumulate(s)),
    "out dtype": (TypeError, "cast", lambda s: strict.add(s, s, out=strict.zeros((4, 3), "i8"))),
    "take out dtype": (TypeError, "dtype", lambda s: strict.take(
        s, strict.arange(4), axis=0, out=strict.empty((4, 3)))),
    "dot out strided": (ValueError, "C-Array", lambda s: strict.dot(
        s, s.T, out=strict.empty((4, 8), "f4")[:, ::2])),
    "repeated ids": (ValueError, "repeated", lambda s: s.__setitem__(strict.asarray([1, -3]),
                                                                       s[:2])),
}


@pytest.mark.parametrize("name", NOT_CUPY)
def test_what_cupy_lacks_is_refused(name: str, a: np.ndarray) -> None:
    error, message, act = NOT_CUPY[name]
    with pytest.raises(error, match=message):
        act(to_strict(a))


def in_place(xp: Any, a: Any) -> Any:
    """Views, in-place operators and every kind of assignment."""
    b = a.copy()
    b[1:, ::2] *= 2.0
    b.T[0] -= b[:, 1]
    b[xp.arange(2), 1:] = a[2:, :2]
    b[0, 0] = 7.0
    b[0, 1] += 1
    b[a > 1] = 0.0
    xp.copyto(b, 3.0, where=a < -1)
    b.reshape(-1)[5:7] = -1.0
    b @= xp.ones((3, 3), dtype=b.dtype)
    return b


def outputs(xp: Any, a: Any) -> Any:
    """`out=` in all the forms that CuPy has."""
    out = xp.empty((4, 4), dtype=a.dtype)
    row = xp.empty(4, dtype=a.dtype)
    wide = xp.zeros((4, 8), dtype=a.dtype)
    assert xp.matmul(a, a.T, out=out) is out
    assert xp.tanh(out, out=out) is out
    xp.matmul(a, a.T, out=wide[:, :4])
    xp.sum(out, axis=1, out=row)
    xp.take(a, xp.arange(4), axis=0, out=wide[:, 5:])
    xp.multiply(row, 0.5, row)
    return out, row, wide


def scatter(xp: Any, a: Any) -> Any:
    """The scatter and segment sums."""
    ids, rows = xp.arange(4) % 2, xp.zeros((2, 3), dtype=xp.float64)
    xp.add.at(rows, ids, a)
    xp.maximum.at(rows, (slice(None), 1), 0.5)
    double = a.astype(xp.float64)
    return rows, xp.add.reduceat(double, xp.arange(0, 4, 2), axis=0), xp.add.reduce(a)


ALLOWED: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda xp, a: [a + a, a - 1, 2 * a, a / 2, a ** 2, -a, abs(a), a @ a.T, 1 - a],
    "comparisons": lambda xp, a: [a > 0, a == a, a != 1, (a > 0) & (a < 1), ~(a <= 0), a >= a],
    "integers": lambda xp, a: [xp.arange(5) // 2, xp.arange(5) % 2, xp.arange(5) << 1],
    "ufuncs": lambda xp, a: [xp.tanh(a), xp.exp(a), xp.maximum(a, 0.0), xp.sqrt(a * a),
                             xp.isfinite(a), xp.sign(a), xp.logaddexp(a, 0.0), xp.modf(a)],
    "complex": lambda xp, a: [xp.exp(a * 1j), (a * 1j).real, (a * 1j).imag, xp.log1p(a * 1j)],
    "reductions": lambda xp, a: [a.sum(), a.sum(axis=0), a.max(-1, keepdims=True), xp.mean(a),
                                 a.argmax(axis=1), xp.all(a > 0), xp.cumsum(a, axis=1),
                                 xp.count_nonzero(a), xp.array_equal(a, a), xp.vdot(a, a)],
    "products": lambda xp, a: [xp.matmul(a[None], a.T), xp.einsum("ij,kj->ik", a, a),
                               xp.dot(a[0], a[1]), xp.tensordot(a, a, 2), xp.outer(a[0], a[1])],
    "shapes": lambda xp, a: [a.T, a.reshape(2, -1), a.ravel(), a[:, None], xp.swapaxes(a, 0, 1),
                             xp.concatenate([a, a]), xp.stack((a, a), axis=1),
                             xp.split(a, 2), xp.broadcast_to(a[0], (2, 3)), a.transpose(1, 0)],
    "indices": lambda xp, a: [a[0, 0], a[1], a[..., 2], a[[0, 2]], a[xp.arange(3)[::-1]],
                              a[np.int64(1)], a[xp.arange(3), xp.arange(3)], a[a > 0], a[-1:, 1]],
    "selection": lambda xp, a: [xp.where(a > 0, a, 0.0), xp.clip(a, -1.0, 1.0), xp.argsort(a),
                                xp.take(a, xp.arange(2), axis=0), xp.sort(a, axis=0),
                                xp.take_along_axis(a, xp.argsort(a, axis=1), axis=1),
                                xp.partition(a, 1, axis=1)[:, 1], xp.tril(a), xp.unique(a)],
    "creation": lambda xp, a: [xp.zeros((2, 3)), xp.ones_like(a), xp.full((2,), 3.0, dtype="f4"),
                               xp.arange(3), xp.eye(2, dtype=a.dtype), xp.asarray([1, 2])],
    "iteration": lambda xp, a: [row * 2 for row in a] + [len(a)],
    "metadata": lambda xp, a: [a.shape, a.dtype, a.ndim, a.size, a.nbytes, a.strides,
                               a.flags.c_contiguous, xp.float32, xp.finfo(a.dtype).eps, xp.pi],
    "in place": in_place,
    "out": outputs,
    "scatter": scatter,
}


def plain(tree: Any) -> list[Any]:
    """The leaves of nested lists and tuples."""
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in plain(item)]
    return [tree]


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_operations_equal_numpy(name: str, a: np.ndarray) -> None:
    expected = plain(ALLOWED[name](np, a))
    actual = plain(to_numpy(ALLOWED[name](strict, to_strict(a))))
    assert len(actual) == len(expected)
    for actual_array, expected_array in zip(actual, expected, strict=True):
        assert np.asarray(actual_array).dtype == np.asarray(expected_array).dtype
        np.testing.assert_array_equal(actual_array, expected_array)


def test_results_are_device_arrays(a: np.ndarray) -> None:
    s = to_strict(a)
    for result in (s.sum(), s[0, 0], s.max(), strict.mean(s), s[0, 0] * 2, strict.allclose(s, s),
                   next(iter(s[0])), strict.modf(s)[0], s > 0, copy.deepcopy(s)):
        assert type(result) is StrictArray


def test_a_scalar_of_no_greater_width_passes(a: np.ndarray) -> None:
    assert (to_strict(a) * np.float32(2)).dtype == np.float32
    assert (to_strict(a).astype(np.float64) * np.float64(2)).dtype == np.float64


def test_views_share_memory_and_element_views_too(a: np.ndarray) -> None:
    s = to_strict(a)
    s[0, 0][...] = 5.0
    s.reshape(-1)[1:2] = 6.0
    s.T[2, 0] = 7.0
    assert to_numpy(s)[0].tolist() == [5.0, 6.0, 7.0]


def test_empty_shows_when_it_is_read() -> None:
    assert np.isnan(to_numpy(strict.empty((2,), dtype="f4"))).all()
    assert np.isnan(to_numpy(strict.empty_like(strict.zeros(2, dtype=complex)))).all()
    assert (to_numpy(strict.empty(2, dtype="i8")) == np.iinfo("i8").max).all()


def test_reduceat_loses_digits_as_cupy_does() -> None:
    values = np.array([1e8, 1.0, 1.0], np.float32)
    starts = np.array([0, 1])
    assert np.add.reduceat(values, starts).tolist() == [1e8, 2.0]
    sums = to_numpy(strict.add.reduceat(to_strict(values), to_strict(starts)))
    assert sums.tolist() == [1e8, 0.0]


@pytest.mark.parametrize(("act", "expected"), [
    (lambda s: strict.asarray(np.zeros(3)), (0, 1, 0)),
    (lambda s: strict.array([1, 2]), (0, 1, 0)),
    (lambda s: strict.asarray(s), (0, 0, 0)),
    (lambda s: strict.array([s[0], s[1]]), (0, 0, 0)),
    (lambda s: strict.asnumpy(s), (1, 0, 0)),
    (lambda s: s.get(), (1, 0, 0)),
    (lambda s: s.set(np.zeros((4, 3))), (0, 1, 0)),
    (lambda s: s[[0, 1]], (0, 1, 0)),
    (lambda s: s[s > 0], (0, 0, 1)),
    (lambda s: s.__setitem__(s > 0, 0.0), (0, 0, 1)),
    (lambda s: strict.nonzero(s), (0, 0, 1)),
    (lambda s: s.nonzero(), (0, 0, 1)),
    (lambda s: strict.where(s > 0), (0, 0, 1)),
    (lambda s: strict.where(s > 0, s, 0.0), (0, 0, 0)),
    (lambda s: strict.unique(s), (0, 0, 1)),
    (lambda s: strict.argpartition(s, 1, axis=1), (0, 0, 1)),
    (lambda s: strict.repeat(s, 2, axis=0), (0, 0, 0)),
    (lambda s: strict.repeat(s, strict.arange(4), axis=0), (0, 0, 1)),
    (lambda s: strict.exp(s @ s.T).sum(), (0, 0, 0)),
])
def test_counts(act: Callable[[Any], Any], expected: tuple[int, int, int], a: np.ndarray) -> None:
    act(to_strict(a))
    counts = strict.counts
    assert (counts.to_host, counts.to_device, counts.syncs) == expected


def test_recorded_names_serve_the_kernels() -> None:
    names = """matmul einsum tanh exp log sqrt maximum minimum add subtract multiply divide square
        take take_along_axis copyto where argmax argsort argpartition partition zeros empty ones
        full arange sum max mean cumsum concatenate stack clip broadcast_to ascontiguousarray
        zeros_like empty_like isfinite all any float32 float64 int64 newaxis inf asarray"""
    assert all(hasattr(strict, name) for name in names.split())
    assert not any(hasattr(strict, name) for name in ("matvec", "insert", "block", "unstack"))


def good_kernel(xp: Any, x: Any) -> Any:
    """A softmax that keeps to the array module."""
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def bad_kernel(xp: Any, x: Any) -> Any:
    """The same with a hidden transfer, which NumPy alone would not notice."""
    e = xp.exp(x - float(x.max()))
    return e / e.sum(axis=1, keepdims=True)


def test_a_hidden_transfer_in_a_kernel_is_caught(a: np.ndarray) -> None:
    np.testing.assert_allclose(bad_kernel(np, a), good_kernel(np, a), rtol=1e-6)
    np.testing.assert_array_equal(to_numpy(good_kernel(strict, to_strict(a))), good_kernel(np, a))
    with pytest.raises(HostTransferError, match="__float__"):
        bad_kernel(strict, to_strict(a))


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Cache:
    pair: Pair
    name: str


def test_trees_are_converted_and_copied(a: np.ndarray) -> None:
    tree = {"cache": Cache(Pair(a, None), "x"), "list": [a, 1, (a.T, "y")]}
    device = to_strict(tree)
    assert type(device["cache"].pair.left) is StrictArray
    assert (device["cache"].pair.right, device["cache"].name, device["list"][1]) == (None, "x", 1)
    device["cache"].pair.left[...] = 0.0
    back = to_numpy(device)
    assert isinstance(back["cache"], Cache) and isinstance(back["cache"].pair, Pair)
    np.testing.assert_array_equal(back["cache"].pair.left, np.zeros_like(a))
    np.testing.assert_array_equal(back["list"][2][0], a.T)
    assert a.any() and (strict.counts.to_host, strict.counts.to_device) == (0, 0)


def test_backend_moves_arrays_to_and_fro(a: np.ndarray) -> None:
    strict.install()
    with backend.using(strict):
        s = backend.to_device(a)
    assert type(s) is StrictArray and backend.array_module(s, None) is strict
    np.testing.assert_array_equal(backend.to_host(s), a)
    assert (strict.counts.to_host, strict.counts.to_device) == (1, 1)
    with pytest.raises(TypeError, match="two backends"):
        backend.array_module(s, a)
