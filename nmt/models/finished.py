"""Gradients that are finished before their backward pass is.

A hand-written backward pass returns its gradients at its end, although those of the prediction
layer, of half of a model's parameters or more, were finished near its beginning. A model says so
with `finished`, and whoever waits for gradients (the ranks of `nmt.training.world`) hears it. What
was said may not change any more: the pass returns the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nmt.models.contract import Gradients

Listener = Callable[[Gradients], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def finished(gradients: Gradients) -> Gradients:
    """Say that these gradients, by name, change no more. Returns them."""
    listener = _listener.get()
    if listener is not None:
        listener(gradients)
    return gradients


@contextmanager
def heard_by(listener: Listener | None) -> Iterator[None]:
    """Context: the listener is told of finished gradients; None for nobody."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def renamed(rename: Callable[[str], str | None]) -> Iterator[None]:
    """Context of the backward pass of a model within another: its gradients are told of under the
    names that the outer one has for them; not those that the outer one still changes (None)."""
    outer = _listener.get()

    def listener(gradients: Gradients) -> None:
        assert outer is not None
        outer({name: gradient for inner, gradient in gradients.items()
               if (name := rename(inner)) is not None})

    with heard_by(None if outer is None else listener):
        yield
