"""The arrays on which a function is continued: complex, with the functions of real analysis.

A `Continued` array is a NumPy array of complex128 on which `abs`, `var`, `np.linalg.norm` and
their kind do what complex step needs (`rules`, `functions`). What would drop the imaginary part
raises NotAnalytic naming the user's line; `.real` may be taken for decisions, and is `Dropped`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from grads.check.continuation.rules import DECISIONS, REPAIRS, rule_of
from grads.check.continuation.state import differ, line, of_ours, refuse

FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # NumPy's function -> its continued form
COMPLEX = np.dtype(np.complex128)
REAL = "the real part is taken"
LARGE = 0.5  # an imaginary part above it is no step, but a complex number of the user's own


class Continued(np.ndarray):
    """A complex array; one without axes stands for a scalar and is not changed in place."""

    __hash__ = None

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        bare = [x.view(np.ndarray) if type(x) is Continued else x for x in inputs]
        for x, given in zip(bare, inputs, strict=True):
            if x is given and type(x) not in (float, int):
                if type(x) is Dropped and ufunc not in DECISIONS:
                    raise refuse(REAL, x.line)
                if np.iscomplexobj(x) and not of_ours(1) and _own(x):
                    raise refuse("complex numbers are used")
        if method == "__call__" and not kwargs and ufunc in SIMPLE:
            return _at_once(ufunc, bare, out)
        return call_ufunc(ufunc, method, inputs, out, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = FUNCTIONS.get(func)
        if known is None:
            name = f"{func.__module__}.{func.__name__}".replace("numpy", "np", 1)
            raise refuse(f"{name} cannot be continued to complex numbers")
        return known(*args, **kwargs)

    # --- elements -------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return wrapped(np.ndarray.__getitem__(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        np.ndarray.__setitem__(plain(self), key, plain(value))

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def item(self, *args: Any) -> Any:
        differ()
        return wrapped(plain(self).item(*args))

    def tolist(self) -> Any:
        differ()
        return [part.tolist() for part in self] if self.ndim else self

    @property
    def flat(self) -> Any:
        if not self.flags.c_contiguous:
            raise refuse(".flat of an array whose elements are not in order cannot be continued")
        return self.reshape(-1)

    # --- what drops the imaginary part ------------------------------------------------------------

    @property
    def real(self) -> Any:
        return _dropped(plain(self).real, REAL)

    @real.setter
    def real(self, value: Any) -> None:
        raise refuse("the real part is written")

    @property
    def imag(self) -> Any:
        if of_ours(1):
            return plain(self).imag
        raise refuse("the imaginary part is taken")

    @imag.setter
    def imag(self, value: Any) -> None:
        raise refuse("the imaginary part is written")

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        kind = np.dtype(dtype).kind
        if kind == "c":
            return wrapped(plain(self).astype(dtype, *args, **kwargs))
        if kind == "f":
            return self._value(f"a cast to {np.dtype(dtype)} drops the imaginary part"
                               ).astype(dtype)
        differ()
        return plain(self).real.astype(dtype, *args, **kwargs)

    def _value(self, what: str) -> Any:
        """The real parts, where nothing depends on the inputs; NotAnalytic elsewhere."""
        if plain(self).imag.any():
            raise refuse(what)
        differ()
        return plain(self).real

    def __float__(self) -> float:
        return float(self._value("float() drops the imaginary part"))

    def __complex__(self) -> complex:
        return complex(plain(self))

    def __int__(self) -> int:
        differ()
        return int(plain(self).real)

    def __bool__(self) -> bool:
        differ()
        return bool(plain(self).real)

    def __round__(self, digits: int | None = None) -> Any:
        differ()
        return round(float(plain(self).real), digits)

    __trunc__ = __int__

    def __floor__(self) -> int:
        differ()
        return math.floor(float(plain(self).real))

    def __ceil__(self) -> int:
        differ()
        return math.ceil(float(plain(self).real))

    def __format__(self, spec: str) -> str:
        return format(plain(self).real if self.ndim else float(plain(self).real), spec)

    def __repr__(self) -> str:
        return repr(plain(self).real)

    def __str__(self) -> str:
        return str(plain(self).real)

    def __copy__(self) -> Continued:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Continued:
        return self.copy()


class Dropped(np.ndarray):
    """Real parts of a continued array: for decisions, which have no derivative, and nothing else.

    Attribute: line, where they were taken.
    """

    __hash__ = None
    line = ""

    def __array_finalize__(self, obj: Any) -> None:
        self.line = getattr(obj, "line", "")

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        if out is not None:
            raise refuse(REAL, self.line)
        if any(isinstance(x, Continued) for x in inputs) and ufunc not in DECISIONS:
            raise refuse(REAL, self.line)
        found = getattr(ufunc, method)(*(_parts(x) for x in inputs), **kwargs)
        steady = ufunc in (np.floor, np.ceil, np.trunc, np.rint, np.sign)
        return found if steady else self._kept(found)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if "out" in kwargs or func in (np.copyto, np.put, np.place, np.putmask):
            raise refuse(REAL, self.line)
        args, kwargs = _mapped(args, _parts), _mapped(kwargs, _parts)
        return self._kept(func(*args, **kwargs))

    def _kept(self, found: Any) -> Any:
        """Real numbers are still dropped parts; decisions, ids and shapes are what they are."""
        if isinstance(found, (tuple, list)):
            return type(found)(self._kept(part) for part in found)
        if not isinstance(found, (np.ndarray, np.generic)) or found.dtype.kind != "f":
            return found
        made = np.asarray(found).view(Dropped)
        made.line = self.line
        return made

    def __getitem__(self, key: Any) -> Any:
        return self._kept(np.ndarray.__getitem__(self, key))

    def __float__(self) -> float:
        raise refuse(REAL, self.line)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __str__(self) -> str:
        return str(self.view(np.ndarray))

    def item(self, *args: Any) -> Any:
        raise refuse(REAL, self.line)

    def tolist(self) -> Any:
        raise refuse(REAL, self.line)


def _parts(x: Any) -> Any:
    """A plain array of real parts."""
    if isinstance(x, (Continued, Dropped)):
        return x.view(np.ndarray).real
    return x


def _mapped(values: Any, change: Callable[[Any], Any]) -> Any:
    """The same lists, tuples and mappings with their arrays changed."""
    if isinstance(values, (tuple, list)):
        made = [_mapped(value, change) for value in values]
        return type(values)(*made) if hasattr(values, "_fields") else type(values)(made)
    if isinstance(values, dict):
        return {name: _mapped(value, change) for name, value in values.items()}
    return change(values)


def _dropped(values: np.ndarray, what: str) -> Any:
    """The real parts as the user may have them; as they are for code made for complex steps."""
    if of_ours(2):
        return values
    made = values.view(Dropped)
    made.line = line()
    return made


def continued(x: Any) -> Continued:
    """The array, or number, as a continued one: a view where it is complex128."""
    if type(x) is np.ndarray and x.dtype == COMPLEX:
        return x.view(Continued)
    return np.asarray(x, COMPLEX).view(Continued)


def plain(x: Any) -> Any:
    """NumPy's array of a continued one, which shares memory; lists and mappings likewise.

    Raises NotAnalytic where real parts that were taken go on.
    """
    if isinstance(x, Continued):
        return x.view(np.ndarray)
    if isinstance(x, Dropped):
        raise refuse(REAL, x.line)
    if isinstance(x, (tuple, list, dict)):
        return _mapped(x, plain)
    return x


def _own(x: Any) -> bool:
    """Whether complex numbers are the user's own, and not continued real ones."""
    return np.iscomplexobj(x) and bool((np.abs(np.imag(x)) > LARGE).any())


def wrapped(found: Any) -> Any:
    """A result with its complex arrays continued; a scalar becomes an array without axes."""
    if isinstance(found, (tuple, list)):
        made = [wrapped(part) for part in found]
        return type(found)(*made) if hasattr(found, "_fields") else type(found)(made)
    if isinstance(found, Continued) or not np.iscomplexobj(found):
        return found
    return continued(found)


def reals(x: Any) -> Any:
    """Real parts, for decisions."""
    return _mapped(x, _parts)


# --- ufuncs -------------------------------------------------------------------------------------

SIMPLE = frozenset({  # the commonest of those whose complex form is what we need
    np.add, np.subtract, np.matmul, np.square, np.sqrt, np.negative, np.log, np.sin, np.cos,
    np.maximum, np.minimum,
})  # fmt: skip


def _at_once(ufunc: np.ufunc, inputs: list[Any], out: Any) -> Any:
    """A simple ufunc without arguments that need care."""
    if out is None:
        found = ufunc(*inputs)
        return continued(found) if np.iscomplexobj(found) else found
    target = out[0]
    try:
        ufunc(*inputs, out=target.view(np.ndarray) if type(target) is Continued else target)
    except TypeError as error:
        raise refuse(f"np.{ufunc.__name__}: {error}") from error
    return target


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], out: Any, kwargs: dict[str, Any]
) -> Any:
    """What NumPy calls for a ufunc, or one of its methods, with a Continued array."""
    if np.dtype(kwargs.get("dtype") or "O").kind == "f":
        kwargs = kwargs | {"dtype": np.complex128}
    if "where" in kwargs:
        kwargs = kwargs | {"where": reals(kwargs["where"])}
    if ufunc in DECISIONS:
        found = _decided(getattr(ufunc, method), inputs, kwargs)
    elif method == "__call__" and ufunc in (np.divmod, np.modf):
        found = _several(ufunc, inputs)
    elif method == "__call__" and (rule := rule_of(ufunc)) is not None:
        found = _by_rule(rule, plain(inputs), kwargs)
    elif method in ("reduce", "accumulate", "outer") and rule_of(ufunc) is not None:
        found = _by_pairs(ufunc, method, inputs, kwargs)
    else:
        return _by_numpy(ufunc, method, plain(inputs), out, kwargs)
    return _delivered(found, out, kwargs)


def _decided(function: Any, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """A decision on real parts; noted where it differs from that on complex numbers."""
    found = function(*reals(inputs), **kwargs)
    try:
        same = np.array_equal(found, function(*_mapped(inputs, _bare), **kwargs))
    except TypeError:
        same = False
    if not same:
        differ()
    return found


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, (Continued, Dropped)) else x


def _by_rule(rule: Callable[..., Any], inputs: Any, kwargs: dict[str, Any]) -> Any:
    """By a rule of our own."""
    differ()
    if set(kwargs) - {"where", "casting", "order", "dtype", "subok"}:
        raise refuse(f"{', '.join(kwargs)} of this function cannot be continued")
    return rule(*(np.asarray(x) if isinstance(x, (list, tuple)) else x for x in inputs))


def _several(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """np.divmod and np.modf."""
    if ufunc is np.divmod:
        return np.floor_divide(*inputs), np.remainder(*inputs)
    whole = np.trunc(inputs[0])
    return inputs[0] - whole, whole


def _by_pairs(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A ufunc's method where the ufunc has a rule: of two arguments at a time."""
    if method == "outer":
        a, b = (np.asanyarray(x) for x in inputs)
        return ufunc(a.reshape(*a.shape, *[1] * b.ndim), b)
    a, axis = inputs[0], kwargs.get("axis", 0)
    if set(kwargs) - {"axis", "keepdims"} or isinstance(axis, tuple):
        raise refuse(f"np.{ufunc.__name__}.{method} with these arguments cannot be continued")
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis)
    rows = list(np.moveaxis(a, axis, 0))
    found = [rows[0]]
    for row in rows[1:]:
        found.append(ufunc(found[-1], row))
    if method == "accumulate":
        return np.stack(found, axis)
    if not kwargs.get("keepdims"):
        return found[-1]
    every = kwargs.get("axis", 0) is None
    return found[-1].reshape([1] * inputs[0].ndim) if every else np.expand_dims(found[-1], axis)


def _by_numpy(ufunc: np.ufunc, method: str, inputs: Any, out: Any, kwargs: dict[str, Any]) -> Any:
    """NumPy's own complex arithmetic; what it makes of infinities is repaired."""
    function = getattr(ufunc, method)
    try:
        if out is not None:
            kwargs = kwargs | {"out": tuple(plain(x) for x in out)}
        before = inputs
        if ufunc in REPAIRS and out is not None:
            before = tuple(np.array(x) if np.may_share_memory(x, plain(out[0])) else x
                           for x in inputs)
        found = function(*inputs, **kwargs)
    except TypeError as error:
        raise refuse(f"np.{ufunc.__name__}: {error}") from error
    if method == "__call__" and ufunc in REPAIRS and np.isnan(found).any():
        repaired = REPAIRS[ufunc](*before)
        if not np.array_equal(repaired, found, equal_nan=True):
            differ()
            if out is None:
                found = repaired
            else:
                np.copyto(plain(out[0]), repaired, where=kwargs.get("where", True))
    if out is not None:
        return out[0] if len(out) == 1 else out
    return wrapped(found)


def _delivered(found: Any, out: Any, kwargs: dict[str, Any]) -> Any:
    """A result, written into `out` if there is one."""
    if out is None or out[0] is None:
        return wrapped(found)
    target = plain(out[0])
    value = plain(found)
    if np.iscomplexobj(value) and not np.iscomplexobj(target):
        if value.imag.any():
            raise refuse("the imaginary part is dropped in an array of real numbers")
        value = value.real
    np.copyto(target, value, where=kwargs.get("where", True), casting="unsafe")
    return out[0]


def _in_place(name: str) -> Callable[..., Any]:
    """An operator such as +=: a scalar is replaced, as Python's numbers are."""
    whole, apart = getattr(np.ndarray, f"__i{name}__"), getattr(np.ndarray, f"__{name}__")
    return lambda self, other: (whole if self.ndim else apart)(self, other)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Continued, f"__i{_name}__", _in_place(_name))
