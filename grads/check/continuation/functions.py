"""NumPy's functions on continued arrays.

Those that only move, add and multiply numbers are NumPy's own. Those that use an absolute value, a
conjugate or a variance are implemented here by operations that can be continued. A function in
neither table raises NotAnalytic with the user's line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grads.check.continuation.array import (
    FUNCTIONS,
    Continued,
    continued,
    plain,
    reals,
    wrapped,
)
from grads.check.continuation.state import create, differ, refuse

# --- NumPy's own ----------------------------------------------------------------------------------

LINEAR = """
    reshape ravel transpose matrix_transpose swapaxes moveaxis rollaxis expand_dims squeeze
    broadcast_to broadcast_arrays atleast_1d atleast_2d atleast_3d concatenate concat stack hstack
    vstack dstack column_stack block split array_split hsplit vsplit dsplit tile repeat flip fliplr
    flipud rot90 roll take take_along_axis choose compress extract diag diagonal diagflat tril triu
    trace sum nansum cumsum nancumsum prod nanprod cumprod mean nanmean dot inner outer tensordot
    kron einsum cross convolve diff ediff1d gradient trapezoid pad insert delete append resize where
    select copy copyto put put_along_axis place putmask fill_diagonal max min amax amin ptp nanmax
    nanmin clip nan_to_num median vander polyval meshgrid sinc unstack permute_dims ix_ average
    vecdot matvec vecmat array2string array_repr array_str
""".split()
LINALG = "inv solve det matrix_power multi_dot tensorsolve tensorinv trace diagonal outer matmul " \
         "tensordot cross matrix_transpose".split()


def by_numpy(function: Any) -> Callable[..., Any]:
    """NumPy's function on complex arrays."""

    def run(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if np.dtype(kwargs.get("dtype") or "O").kind == "f":
            kwargs["dtype"] = np.complex128
        try:
            found = function(*plain(args), **plain(kwargs))
        except (TypeError, ValueError) as error:
            if isinstance(error, TypeError):
                raise refuse(f"np.{function.__name__}: {error}") from error
            raise
        return out if out is not None else wrapped(found)

    return run


def decided(function: Any) -> Callable[..., Any]:
    """A function whose result is a decision, made on the real parts."""

    def run(*args: Any, **kwargs: Any) -> Any:
        found = function(*reals(args), **reals(kwargs))
        differ()
        return found

    return run


def told(function: Any) -> Callable[..., Any]:
    """A function that returns a property of an array, such as its shape."""
    return lambda *args, **kwargs: function(*plain(args), **plain(kwargs))


DECIDED = """
    argmax argmin nanargmax nanargmin argsort argpartition lexsort nonzero flatnonzero argwhere
    count_nonzero any all searchsorted digitize isclose allclose array_equal array_equiv bincount
    histogram unique in1d isin
""".split()
TOLD = "shape ndim size iscomplexobj isrealobj result_type can_cast min_scalar_type " \
       "may_share_memory shares_memory common_type".split()

# --- of our own -----------------------------------------------------------------------------------


def variance(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:
    """np.var: the mean of squares, not of squared magnitudes."""
    a, where = continued(a), reals(where)
    ddof = ddof if correction is None else correction
    centre = np.mean(a, axis, keepdims=True, where=where) if mean is None else mean
    squares = np.square(a - centre)
    count = np.sum(np.broadcast_to(np.asarray(where), a.shape), axis=axis, keepdims=bool(keepdims))
    differ()
    return _into(out, np.sum(squares, axis, keepdims=bool(keepdims), where=where)
                 / np.maximum(count - ddof, 0))


def deviation(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *args: Any,
              **kwargs: Any) -> Any:
    """np.std."""
    return _into(out, np.sqrt(variance(a, axis, None, None, *args, **kwargs)))


def _into(out: Any, found: Any) -> Any:
    """The result, written into `out` if there is one."""
    if out is None:
        return found
    out[...] = found
    return out


def covariance(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, **kwargs: Any,
) -> Any:
    """np.cov without weights: X X^T of the centred X, without a conjugate."""
    if fweights is not None or aweights is not None:
        raise refuse("np.cov with weights cannot be continued to complex numbers")
    differ()
    rows = [np.atleast_2d(continued(part)) for part in (m, y) if part is not None]
    x = np.concatenate([part if rowvar or len(part) == 1 else part.T for part in rows])
    x = x - np.mean(x, axis=1, keepdims=True)
    ddof = (0 if bias else 1) if ddof is None else ddof
    return np.squeeze(x @ x.T / (x.shape[1] - ddof))


def correlation(x: Any, y: Any = None, rowvar: bool = True, **kwargs: Any) -> Any:
    """np.corrcoef."""
    c = covariance(x, y, rowvar)
    if not c.ndim:
        return c / c
    spread = np.sqrt(np.diag(c))
    return c / spread[:, None] / spread[None, :]


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """np.linalg.norm, except norms of singular values."""
    differ()
    x = continued(x)
    if axis is None and (ord is None or x.ndim == 1):
        return _vector_norm(x, 2 if ord is None else ord, tuple(range(x.ndim)), keepdims)
    axis = (x.ndim - 2, x.ndim - 1) if axis is None else axis
    axis = (axis,) if np.ndim(axis) == 0 else tuple(axis)
    if len(axis) == 1 or ord in (None, "fro"):
        return _vector_norm(x, 2 if ord in (None, "fro") else ord, axis, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        return _matrix_norm(x, ord, axis, keepdims)
    raise refuse(f"np.linalg.norm of order {ord} of a matrix cannot be continued")


def _vector_norm(x: Any, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """The norm of all entries along some axes."""
    if ord == 2:
        return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
    size = np.abs(x)
    if ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return continued(np.sum(reals(x) != 0, axis=axis, keepdims=keepdims))
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    return np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def _matrix_norm(x: Any, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """The largest, or smallest, sum of a matrix's columns (1) or rows (infinity)."""
    x = np.moveaxis(x, axis, (-2, -1))
    sums = np.sum(np.abs(x), axis=-2 if abs(ord) == 1 else -1)
    found = (np.max if ord > 0 else np.min)(sums, axis=-1)
    return np.expand_dims(found, tuple(a % x.ndim for a in axis)) if keepdims else found


def vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """np.linalg.vector_norm."""
    x = continued(x)
    axis = tuple(range(x.ndim)) if axis is None else axis
    differ()
    return _vector_norm(x, ord, (axis,) if np.ndim(axis) == 0 else tuple(axis), keepdims)


def ordered(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *,
            stable: Any = None) -> Any:
    """np.sort: in the order of the real parts."""
    a = continued(a)
    differ()
    a, axis = (a.reshape(-1), -1) if axis is None else (a, axis)
    places = np.argsort(reals(a), axis=axis, kind="stable")
    return wrapped(np.take_along_axis(plain(a), places, axis))


def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, **kwargs: Any) -> Any:
    """np.quantile by linear interpolation along one axis or all."""
    if method != "linear" or isinstance(axis, tuple) or np.ndim(q) > 1 or keepdims:
        raise refuse("np.quantile with these arguments cannot be continued to complex numbers")
    differ()
    a = np.moveaxis(ordered(a, axis), -1 if axis is None else axis, 0)
    place = np.asarray(reals(q), float) * (len(a) - 1)
    low = np.floor(place).astype(int)
    part = (place - low).reshape(place.shape + (1,) * (a.ndim - 1))
    return _into(out, a[low] * (1 - part) + a[np.minimum(low + 1, len(a) - 1)] * part)


def interpolated(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None,
                 period: Any = None) -> Any:
    """np.interp without a period."""
    if period is not None:
        raise refuse("np.interp with a period cannot be continued to complex numbers")
    differ()
    x, xp, fp = continued(x), continued(xp), continued(fp)
    k = np.clip(np.searchsorted(reals(xp), reals(x), side="right") - 1, 0, len(xp) - 2)
    found = fp[k] + (x - xp[k]) * (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k])
    found = np.where(x < xp[0], fp[0] if left is None else left, found)
    return np.where(x > xp[-1], fp[-1] if right is None else right, found)


def sign_and_log(a: Any) -> Any:
    """np.linalg.slogdet: the logarithm of |det|; NumPy's complex one has the angle as imaginary
    part."""
    differ()
    sign, log = np.linalg.slogdet(plain(a))
    way = np.sign(sign.real)
    return np.linalg._linalg.SlogdetResult(continued(way), continued(log + np.log(sign * way)))


def without_conjugate(a: Any, b: Any) -> Any:
    """np.vdot."""
    differ()
    return np.dot(np.ravel(a), np.ravel(b))


def correlated(a: Any, v: Any, mode: str = "valid") -> Any:
    """np.correlate, without the conjugate of v."""
    differ()
    return np.convolve(a, continued(v)[::-1], mode)  # type: ignore[call-overload]


def counted(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """np.bincount of weights."""
    x = np.asarray(x)
    found = continued(np.zeros(max(int(x.max(initial=-1)) + 1, minlength)))
    np.add.at(plain(found), x, plain(weights))
    differ()
    return found if weights is not None else np.bincount(x, None, minlength)


def like(function: Any) -> Callable[..., Any]:
    """np.zeros_like and the like: complex instead of floating."""

    def make(*args: Any, **kwargs: Any) -> Any:
        found = function(*plain(args), **plain(kwargs))
        if found.dtype.kind == "f":
            create()
        return continued(found) if found.dtype.kind in "fc" else found

    return make


def as_is(function: Any) -> Callable[..., Any]:
    """A NumPy function written in Python that calls the user's: run on the continued arrays
    themselves."""
    return lambda *args, **kwargs: function._implementation(*args, **kwargs)


def rounded(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """np.round: constant between its jumps."""
    differ()
    return _into(out, continued(np.round(reals(a), decimals)))


def imaginary(val: Any) -> Any:
    """np.imag and np.angle."""
    raise refuse("the imaginary part, or the angle, is taken")


def _finite(test: Any) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: test(reals(x), *args, **kwargs)


FUNCTIONS.update({getattr(np, n): by_numpy(getattr(np, n)) for n in LINEAR if hasattr(np, n)})
FUNCTIONS.update({getattr(np.linalg, n): by_numpy(getattr(np.linalg, n))
                  for n in LINALG if hasattr(np.linalg, n)})
FUNCTIONS[np.lib.stride_tricks.sliding_window_view] = by_numpy(
    np.lib.stride_tricks.sliding_window_view)
FUNCTIONS.update({getattr(np, n): decided(getattr(np, n)) for n in DECIDED if hasattr(np, n)})
FUNCTIONS.update({getattr(np, n): told(getattr(np, n)) for n in TOLD if hasattr(np, n)})
FUNCTIONS.update({
    np.var: variance, np.std: deviation, np.cov: covariance, np.corrcoef: correlation,
    np.linalg.norm: norm, np.linalg.vector_norm: vector_norm,
    np.linalg.matrix_norm: lambda x, *, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims),
    np.linalg.slogdet: sign_and_log,
    np.sort: ordered, np.partition: lambda a, kth, axis=-1, **how: ordered(a, axis),
    np.quantile: quantile,
    np.percentile: lambda a, q, *args, **how: quantile(a, np.asarray(q) / 100, *args, **how),
    np.interp: interpolated, np.bincount: counted,
    np.vdot: without_conjugate, np.correlate: correlated,
    np.round: rounded, np.around: rounded, np.fix: lambda x, out=None: np.trunc(x, out=out),
    np.real: lambda val: val.real, np.imag: imaginary, np.angle: lambda z, deg=False: imaginary(z),
    np.zeros_like: like(np.zeros_like), np.ones_like: like(np.ones_like),
    np.empty_like: like(np.empty_like), np.full_like: like(np.full_like),
    np.apply_along_axis: as_is(np.apply_along_axis), np.piecewise: as_is(np.piecewise),
    np.apply_over_axes: as_is(np.apply_over_axes),
    np.isreal: _finite(np.isreal), np.iscomplex: _finite(np.iscomplex),
    np.isposinf: _finite(np.isposinf), np.isneginf: _finite(np.isneginf),
    np.real_if_close: lambda a, tol=100: a,
})  # fmt: skip

# --- methods --------------------------------------------------------------------------------------


def _method_of(function: Any) -> Callable[..., Any]:
    """A function as a method: a callable that is not a function would not be bound to its array."""
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


def _sort_in_place(a: Any, axis: int = -1, **kwargs: Any) -> None:
    a[...] = ordered(a, axis)


for _name in ("sum", "prod", "mean", "max", "min", "var", "std", "any", "all", "cumsum",
              "cumprod", "argmax", "argmin", "argsort", "argpartition", "dot", "trace", "take",
              "repeat", "compress", "clip", "round", "nonzero", "searchsorted", "diagonal"):
    setattr(Continued, _name, _method_of(FUNCTIONS[getattr(np, _name)]))
for _name, _method in {
    "choose": np.choose, "sort": _sort_in_place, "conj": lambda a: np.conjugate(a),
    "conjugate": lambda a: np.conjugate(a),
    "partition": lambda a, kth, axis=-1, **how: _sort_in_place(a, axis),
}.items():
    setattr(Continued, _name, _method_of(_method))
