"""Chooses between a pointwise function as written and its fused kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from inspect import signature
from typing import Any, TypeVar

from backend.fused.layout import Unfusable
from backend.fused.source import Launcher
from backend.switch import is_array, name_mixture

Function = TypeVar("Function", bound=Callable[..., Any])

BOUND: list[Callable[..., Any]] = []  # all functions that have a fused kernel

_launchers: dict[type, Launcher] = {}  # array type -> launcher of kernels on such arrays
_on = True


def register(array_type: type, launcher: Launcher) -> None:
    """Run fused kernels on arrays of `array_type`, launched by `launcher`."""
    _launchers[array_type] = launcher


def use(on: bool) -> None:
    """Switch fused kernels on or off, for a benchmark or a comparison; they are on at the start."""
    global _on
    _on = on


@contextmanager
def using(on: bool) -> Iterator[None]:
    """`use` for the length of a with-block."""
    before = _on
    use(on)
    try:
        yield
    finally:
        use(before)


def is_on() -> bool:
    """Whether fused kernels run where there are any."""
    return _on


def fused(kernel: Callable[..., Any]) -> Callable[[Function], Function]:
    """Bind a pointwise function to its fused kernel: `@fused(kernels.lstm_forward)`.

    `kernel` takes a launcher, then the function's arguments, and launches a `Kernel`; it becomes
    the function's attribute `fused_kernel`. Where it does not support a layout or a size, it raises
    `Unfusable` before it has written anything, and the plain function runs, or for real numbers its
    form `in_place`.
    """

    def bind(plain: Function) -> Function:
        @functools.wraps(plain)
        def either(*args: Any, **kwargs: Any) -> Any:
            if _launchers and _on:
                with suppress(Unfusable):
                    return _launch(attributes["fused_kernel"], plain, args, kwargs)
            form = attributes["in_place"]
            if form is None or args[0].dtype.kind == "c":
                return plain(*args, **kwargs)
            return form(*args, **kwargs)

        attributes = vars(either)
        attributes |= {"fused_kernel": kernel, "in_place": None}
        BOUND.append(either)
        return either  # type: ignore[return-value]

    return bind


def in_place(function: Function) -> Callable[[Function], Function]:
    """Bind the form of a `fused` function that computes in place, which real numbers take: for
    arithmetic that this makes a tenth faster or more. Its first argument is an array.

    `function` keeps the formulas and is what complex numbers run. Tests compare the other two forms
    with it.
    """

    def bind(faster: Function) -> Function:
        vars(function)["in_place"] = faster
        return faster

    return bind


def _launch(kernel: Callable[..., Any], plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The result of the kernel. Raises Unfusable if none runs on such arguments, and TypeError
    naming an argument on another backend."""
    launcher = _launcher_of(args)
    if launcher is None:
        raise Unfusable
    try:
        return kernel(launcher, *args, **kwargs)
    except TypeError:
        _name_mixture(plain, args, kwargs)
        raise


def _name_mixture(plain: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Raise TypeError naming the argument that is not on the first array's backend."""
    by_name: dict[str, Any] = {}
    for name, value in signature(plain).bind(*args, **kwargs).arguments.items():
        if isinstance(value, (tuple, list)):
            by_name |= {f"{name}[{place}]": element for place, element in enumerate(value)}
        else:
            by_name[name] = value
    name_mixture(plain.__qualname__, {name: a for name, a in by_name.items() if is_array(a)})


def _launcher_of(args: tuple[Any, ...]) -> Launcher | None:
    """The launcher for the first floating-point array among the arguments, or in a sequence among
    them; None if there is none.

    Masks and ids do not decide the dtype; complex numbers have no fused kernels.
    """
    for argument in args:
        if isinstance(argument, (list, tuple)) and argument:
            argument = argument[0]
        launcher = _launchers.get(type(argument))
        if launcher is not None and argument.dtype.kind in "fc":
            return launcher if argument.dtype.char in "fd" else None
    return None
