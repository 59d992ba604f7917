"""Measures the time of a training step by part, by wrapping the functions of each part.

The product itself is not changed. The time of a part excludes other parts called from it, so the
parts add up to the step; "rest" is the time outside of all parts. On a GPU there is a
synchronisation after each part, which makes the step longer. Both times are reported.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pkgutil import resolve_name
from typing import Any

REST = "rest"
PARTS = (
    "embeddings", "dropout masks", "encoder forward", "encoder backward", "bridge",
    "attention forward", "attention backward", "decoder forward", "decoder backward",
    "prediction forward", "prediction backward", "clip", "update", REST,
)


def passes_of(timed: str, *names: str) -> dict[str, str]:
    """`name`_forward and `name`_backward as the forward and backward of a timed part."""
    return {f"{name}_{way}": f"{timed} {way}" for name in names for way in ("forward", "backward")}


EMBEDDINGS = dict.fromkeys(("embedding_forward", "embedding_backward"), "embeddings")
VECTORS = passes_of("attention", "attentional")
MEMORY = {"attend": "attention forward"} | dict.fromkeys(
    ("accumulators", "attend_backward", "gradients"), "attention backward")
MODEL = passes_of("encoder", "encoder") | {"memory_forward": "attention forward"}
HEAD = {way: f"prediction {way}" for way in ("forward", "backward")}
DECODER = {way: f"decoder {way}" for way in ("forward", "backward")}
# For each module or class, the functions that it calls, or its methods, and their part. The name
# that a module has imported is wrapped, so that the same function may belong to another part where
# another module calls it.
TIMED: dict[str, dict[str, str]] = {
    "nmt.models.translator": MODEL | {
        "dropout_mask": "dropout masks", "bridge_forward": "bridge", "bridge_backward": "bridge"},
    **dict.fromkeys(("nmt.models.translator.FEEDING", "nmt.models.translator.STATE_FEEDING",
                     "nmt.models.translator.WITHOUT_FEEDING"), DECODER),
    "nmt.models.rnnsearch": MODEL | passes_of("decoder", "searching", "fixed") | dict.fromkeys(
        ("_first_state_forward", "_first_state_backward"), "bridge"),
    "nmt.models.heads.softmax.Softmax": HEAD,
    "nmt.models.heads.softmax_terms.SoftmaxWithTerms": HEAD,
    "nmt.models.heads.deep_output.DeepOutput": HEAD,
    "nmt.models.encoder": EMBEDDINGS,
    "nmt.models.decoder": EMBEDDINGS | VECTORS,
    "nmt.models.input_feeding": EMBEDDINGS | VECTORS,
    "nmt.models.contextual": EMBEDDINGS,
    **dict.fromkeys(("attention.attention.GlobalMemory", "attention.local.LocalMemory",
                     "attention.location.LocationMemory"), MEMORY),
}


class Stopwatch:
    """Seconds by part. The part that was entered last is the one that runs."""

    def __init__(self, synchronise: Callable[[], Any] = lambda: None) -> None:
        """synchronise: waits until a device has finished."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._synchronise, self._entered, self._since = synchronise, list[str](), 0.0

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Context whose time belongs to the part `name`."""
        self._account()
        self._entered.append(name)
        try:
            yield
        finally:
            self._account()
            self._entered.pop()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose calls belong to the part `name`."""
        @wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            with self.timed(name):
                return function(*arguments, **named)
        return watched

    def _account(self) -> None:
        """Add the time since the last change of part to the part that was running."""
        self._synchronise()
        now = time.perf_counter()
        if self._entered:
            self.seconds[self._entered[-1]] += now - self._since
        self._since = now


@contextmanager
def watching(stopwatch: Stopwatch) -> Iterator[None]:
    """Context in which all functions of `TIMED` are wrapped for `stopwatch`."""
    with ExitStack() as undo:
        for place, functions in TIMED.items():
            owner = resolve_name(place)
            for name, label in functions.items():
                function = getattr(owner, name)
                undo.callback(setattr, owner, name, function)
                setattr(owner, name, stopwatch.wrap(label, function))
        yield
