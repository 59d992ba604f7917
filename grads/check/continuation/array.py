"""The arrays on which a function is continued: complex, with the functions of real analysis.

A `Continued` array is a NumPy array of complex128 on which `abs`, `var`, `np.linalg.norm` and the
like are continued analytically (`rules`, `functions`). An operation that would drop the imaginary
part raises NotAnalytic naming the user's line; `.real` may be used for decisions, and is `Dropped`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from grads.check.continuation.rules import DECISIONS
from grads.check.continuation.state import differ, line, of_ours, refuse

FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # NumPy's function, or "ufunc" -> its continued form
COMPLEX = np.dtype(np.complex128)
REAL = "the real part is taken"
LARGE = 0.5  # a larger imaginary part is no step, but the user's own complex number


class Continued(np.ndarray):
    """A complex array; a 0-d one represents a scalar and is not changed in place."""

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
        return FUNCTIONS["ufunc"](ufunc, method, inputs, out, kwargs)

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
        if kind in "fO":
            return self._value(f"a cast to {np.dtype(dtype)} drops the imaginary part"
                               ).astype(dtype)
        differ()
        return plain(self).real.astype(dtype, *args, **kwargs)

    def _value(self, what: str) -> Any:
        """The real parts, if nothing depends on the inputs; else raises NotAnalytic."""
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

    Attribute: line, where `.real` was used.
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
        args, kwargs = mapped(args, _parts), mapped(kwargs, _parts)
        return self._kept(func(*args, **kwargs))

    def _kept(self, found: Any) -> Any:
        """Real numbers stay `Dropped`; decisions, ids and shapes become plain arrays."""
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


def mapped(values: Any, change: Callable[[Any], Any]) -> Any:
    """Nested lists, tuples and mappings with `change` applied to their arrays."""
    if isinstance(values, (tuple, list)):
        made = [mapped(value, change) for value in values]
        return type(values)(*made) if hasattr(values, "_fields") else type(values)(made)
    if isinstance(values, dict):
        return {name: mapped(value, change) for name, value in values.items()}
    return change(values)


def _dropped(values: np.ndarray, what: str) -> Any:
    """The real parts as a `Dropped` array; plain for code that supports complex steps itself."""
    if of_ours(2):
        return values
    made = values.view(Dropped)
    made.line = line()
    return made


def continued(x: Any) -> Continued:
    """The array or number as a Continued array: a view if it is complex128."""
    if type(x) is np.ndarray and x.dtype == COMPLEX:
        return x.view(Continued)
    return np.asarray(x, COMPLEX).view(Continued)


def plain(x: Any) -> Any:
    """A continued array as a plain NumPy array that shares its memory; likewise in lists and
    mappings.

    Raises NotAnalytic for a `Dropped` array, whose real parts would be used as values.
    """
    if isinstance(x, Continued):
        return x.view(np.ndarray)
    if isinstance(x, Dropped):
        raise refuse(REAL, x.line)
    if isinstance(x, (tuple, list, dict)):
        return mapped(x, plain)
    return x


def _own(x: Any) -> bool:
    """Whether complex numbers are the user's own, not continued real ones."""
    return np.iscomplexobj(x) and bool((np.abs(np.imag(x)) > LARGE).any())


def wrapped(found: Any) -> Any:
    """A result with its complex arrays as Continued ones; a scalar becomes a 0-d array."""
    if isinstance(found, (tuple, list)):
        made = [wrapped(part) for part in found]
        return type(found)(*made) if hasattr(found, "_fields") else type(found)(made)
    if isinstance(found, Continued) or not np.iscomplexobj(found):
        return found
    return continued(found)


def reals(x: Any) -> Any:
    """Real parts, for decisions."""
    return mapped(x, _parts)


# --- ufuncs -------------------------------------------------------------------------------------

SIMPLE = frozenset({  # common ufuncs whose complex form is the continuation
    np.add, np.subtract, np.matmul, np.square, np.sqrt, np.negative, np.log, np.sin, np.cos,
    np.maximum, np.minimum,
})  # fmt: skip


def _at_once(ufunc: np.ufunc, inputs: list[Any], out: Any) -> Any:
    """Call a simple ufunc directly, if none of its arguments needs special treatment."""
    if out is None:
        found = ufunc(*inputs)
        return continued(found) if np.iscomplexobj(found) else found
    target = out[0]
    try:
        ufunc(*inputs, out=target.view(np.ndarray) if type(target) is Continued else target)
    except TypeError as error:
        raise refuse(f"np.{ufunc.__name__}: {error}") from error
    return target


def _in_place(name: str) -> Callable[..., Any]:
    """An operator such as +=: a scalar is replaced, as Python's numbers are."""
    whole, apart = getattr(np.ndarray, f"__i{name}__"), getattr(np.ndarray, f"__{name}__")
    return lambda self, other: (whole if self.ndim else apart)(self, other)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Continued, f"__i{_name}__", _in_place(_name))
