"""The time of a training step by part, measured by wrapping the functions of each part.

The product is not changed for it. A part's time excludes other parts called from it, so the parts
add up to the step; "rest" is the time outside all parts. On a GPU there is a synchronisation after
each part, and the step takes longer than without: both times are reported.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

REST = "rest"
PARTS = (
    "embeddings", "dropout masks", "encoder forward", "encoder backward", "bridge",
    "attention forward", "attention backward", "decoder forward", "decoder backward",
    "prediction forward", "prediction backward", "clip", "update", REST,
)
EMBEDDINGS = dict.fromkeys(("row_index", "embedding_forward", "embedding_backward"), "embeddings")
ATTENTION = {
    "attention_forward": "attention forward", "attention_backward": "attention backward",
    "accumulators": "attention backward", "memory_backward": "attention backward",
}
CONTEXTS = {
    "contexts_forward": "attention forward", "contexts_backward": "attention backward",
    "all_accumulators": "attention backward", "memories_backward": "attention backward",
}
VECTOR = {
    "attentional_forward": "attention forward", "attentional_backward": "attention backward",
}
MODEL = {
    "encoder_forward": "encoder forward", "encoder_backward": "encoder backward",
    "memory_forward": "attention forward",
    "predicted_forward": "prediction forward", "predicted_backward": "prediction backward",
}
# Module, then the functions it calls that belong to a part. The module's imported name is wrapped,
# so that the same function can count for its caller elsewhere.
TIMED: dict[str, dict[str, str]] = {
    "nmt.models.translator": MODEL | {
        "dropout_mask": "dropout masks", "bridge_forward": "bridge", "bridge_backward": "bridge",
        "input_feeding_forward": "decoder forward",
        "input_feeding_backward": "decoder backward",
        "decoder_forward": "decoder forward", "decoder_backward": "decoder backward",
    },
    "nmt.models.rnnsearch": MODEL | {
        "_first_state_forward": "bridge", "_first_state_backward": "bridge",
        "searching_forward": "decoder forward", "searching_backward": "decoder backward",
        "fixed_forward": "decoder forward", "fixed_backward": "decoder backward",
        "deep_forward": "prediction forward", "deep_backward": "prediction backward",
    },
    "nmt.models.encoder": dict.fromkeys(
        ("row_index", "embedding_forward", "factored_forward", "factored_backward"), "embeddings"),
    "nmt.models.decoder": EMBEDDINGS | CONTEXTS | VECTOR,
    "nmt.models.feeding": EMBEDDINGS | CONTEXTS | VECTOR,
    "nmt.models.contextual": EMBEDDINGS | ATTENTION,
}


class Stopwatch:
    """Seconds by part; one part runs at a time, the innermost that was entered."""

    def __init__(self, synchronise: Callable[[], Any] = lambda: None) -> None:
        """`synchronise` waits for what a device still computes."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._synchronise, self._entered, self._since = synchronise, list[str](), 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Context: the time inside belongs to `name`."""
        self._account()
        self._entered.append(name)
        try:
            yield
        finally:
            self._account()
            self._entered.pop()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, each call of which belongs to `name`."""
        @wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            with self.part(name):
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
    """Wrap all functions of `TIMED` for `stopwatch`; undone afterwards."""
    with ExitStack() as undo:
        for module_name, functions in TIMED.items():
            module = import_module(module_name)
            for name, part in functions.items():
                function = getattr(module, name)
                undo.callback(setattr, module, name, function)
                setattr(module, name, stopwatch.wrap(part, function))
        yield
