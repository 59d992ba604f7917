"""Runs a derivation: traces its forward and backward on an example and verifies the gradients."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from grads.check.copies import deep_copy
from grads.check.report import Report
from grads.derivations.examples import Example, Request, Sizes, is_fed
from grads.derivations.scores import Variant
from grads.stepper.trace import Edits, Origin, Step, Trace, record, trace
from grads.stepper.tracing.nearest import nearest
from grads.stepper.tracing.numerical import OwnRuns
from grads.stepper.tracing.pairing import Pairing, root_of
from grads.stepper.tracing.program import Program, Rewrites
from grads.stepper.tracing.replay import Runs, Untouched
from grads.stepper.tracing.returned import Kept
from grads.stepper.tracing.values import KEEP
from grads.stepper.tracing.verify import Verification, verify

HELD = 2**14  # numbers of the largest array that a trace of ours holds


class Break(NamedTuple):
    """A wrong backward pass as an example: its name, an explanation, and the change of the
    source."""

    name: str
    explanation: str
    edits: Edits


@dataclass(frozen=True)
class Derivation:
    """A forward, its backward, and an example to run them on."""

    name: str
    title: str
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    pairing: Pairing
    example: Callable[[Request], Example]
    follow: tuple[Any, ...]  # modules whose functions are traced
    breaks: tuple[Break, ...] = ()
    loss: Callable[[Example, Any], Any] = lambda example, result: result[0]  # of the forward's
    given: Callable[[Example, Any], tuple[Any, ...]] = (  # the backward's arguments
        lambda example, result: (*example.arguments, result[1]))
    is_users: bool = False  # whether the functions, a user's, may write into arguments
    settings: tuple[str, ...] = ()  # the optional settings that it uses
    sentence: str | None = None  # of a translation: where the user gives none
    recurrent: bool = False  # whether a gradient flows back through time
    gates: tuple[str, ...] = ()  # row blocks of its recurrent weights; f is the forget gate's
    attentive: bool = False  # whether a decoder attends to the source
    kept: Kept | None = None  # how gradients are read that a loss returns, or a layer keeps
    loss_at: Callable[[Trace], Origin | None] | None = None  # of a forward that is the backward
    # too: where it assigns the loss
    report: Report | None = None  # of `grads check`, without a diagnosis
    diagnosed: Callable[[], Report | None] = lambda: None  # makes the same with one
    refused: str = ""  # why `grads check` refuses what the backward returns
    rewrites: Rewrites = field(default_factory=Rewrites, repr=False, compare=False)  # of a user's

    def run(
        self, sentence: str | None = None, *, sizes: Sizes | None = None, seed: int = 0,
        edits: Edits | None = None, keep: int = KEEP,
    ) -> Run:
        """Trace one forward and one backward.

        Arguments: sentence, words separated by spaces, for translation "source ||| target"; sizes,
        of the parameters, which are drawn with seed; edits, changes of the backward's source, as in
        a `Break`; keep, how many numbers of an array are kept. Returns the two traces as a `Run`.
        Raises `UserError` for a sentence without words, and for edits that do not fit.
        """
        request = Request(sentence, sizes or Sizes(), np.random.default_rng(seed))
        example = self.example(request)
        arguments = self.untouched(example.arguments)
        if isinstance(example.arguments, Untouched):
            example = replace(example, arguments=example.arguments.copied())
        forward = record(self.program(self.forward), example.arguments, example.named, keep,
                         self.held)
        if self.loss_at is not None:
            return Run(self, example, *passes(forward, self.loss_at(forward)), arguments,
                       arguments, example.arguments)
        passed = self.given(example, forward.result)
        if self.is_users and example.upstream is not None and self.kept is None:
            passed = (deep_copy(passed[0], {}), *passed[1:])  # the loss needs the original
        kept_arguments = self.untouched(passed)
        program = self.program(self.backward)
        backward = record(program.edited(edits) if edits else program, passed, {}, keep, self.held)
        return Run(self, example, forward, backward, arguments, kept_arguments, passed)

    def program(self, function: Callable[..., Any]) -> Program:
        """The rewritten forward or backward. Those of our own derivations are made once."""
        if self.is_users:
            return Program(function, self.follow, returns=True, rewrites=self.rewrites)
        return programs(self.forward, self.backward, self.follow)[function is self.backward]

    @property
    def held(self) -> float:
        """The size up to which traces keep arrays alive. A user's array may be filled part by part,
        and is then read from the array itself, so all arrays of a user's function are kept."""
        return math.inf if self.is_users else HELD

    def untouched(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments for later runs. They are copied if a user's functions may write into them."""
        if not self.is_users or isinstance(arguments, Untouched):
            return arguments
        return Untouched(Untouched(arguments).copied())

    def broken(self, name: str) -> Edits:
        """The edits of a break. Raises `UserError`, with the nearest name, if there is no such
        break."""
        return nearest({mistake.name: mistake for mistake in self.breaks}, name, "break").edits


@lru_cache(maxsize=8)
def programs(forward: Any, backward: Any, follow: tuple[Any, ...]) -> tuple[Program, Program]:
    """A derivation's forward and backward, which share the rewritten functions."""
    both = Program(forward, follow, others=[backward])
    return both, both.starting_at(backward)


@dataclass(frozen=True)
class Run:
    """The traces of one forward and its backward."""

    derivation: Derivation
    example: Example
    forward: Trace
    backward: Trace
    arguments: tuple[Any, ...] = field(repr=False)  # of the forward, for later runs
    given: tuple[Any, ...] = field(repr=False)  # of the backward, for later runs
    after: tuple[Any, ...] = field(repr=False)  # the same, after it has run

    def shortened(self, keep: int) -> Run:
        """The same run with fewer numbers of each array in its traces."""
        return replace(self, forward=self.forward.shortened(keep),
                       backward=self.backward.shortened(keep))

    @property
    def title(self) -> str:
        """The derivation's title, including the score and the window in use."""
        if self.variant is None:
            return self.derivation.title
        feeding = ", with input feeding" if self.fed else ", without input feeding"
        return self.derivation.title.format(
            score=self.variant.score, window=self.variant.window, feeding=feeding)

    @property
    def variant(self) -> Variant | None:
        """The attention variant; None without attention."""
        arguments = (*self.example.arguments[:1], *self.example.named.values())
        return next((value for value in arguments if isinstance(value, Variant)), None)

    @property
    def fed(self) -> bool:
        """Whether the decoder reads the attentional vector of the previous step."""
        return self.variant is not None and bool(self.example.words) and is_fed(
            self.example.arguments[0])

    @property
    def loss_said(self) -> str:
        """The loss in words. A single step or a user's function has a projection of its outputs as
        the loss."""
        if self.example.words:
            return "loss"
        if self.example.upstream is None:
            return "value"
        return "sum of (upstream gradient × output), which stands for a loss,"

    def loss(self, result: Any, after: Sequence[Any] | None = None) -> Any:
        """The loss, computed from what the forward returned.

        Argument after: the forward's arguments after that run (default: those of the example).
        """
        example = self.example if after is None else replace(self.example, arguments=tuple(after))
        return self.derivation.loss(example, result)

    def runs(self, forward: Trace) -> Runs:
        """Runs of the forward with perturbed variables. Argument forward: a trace of it."""
        kind = OwnRuns if self.derivation.is_users else Runs
        return kind(forward, self.arguments, self.loss, self.example.named)

    def verifications(
        self, central: bool = True, most: int | None = None, gradients_most: int | None = None
    ) -> list[Verification]:
        """The verification of every gradient. The arguments are those of `verify`."""
        return verify(self.derivation.pairing, self.backward, self.runs(self.forward), central,
                      most, gradients_most)

    def parts(self) -> Trace:
        """The trace of the forward, with the parts of its expressions."""
        arguments = Untouched(self.arguments).copied()
        with self.forward.rewound():
            parts = trace(self.derivation.forward, *arguments, follow=self.derivation.follow,
                          parts=True, returns=self.derivation.is_users, **self.example.named)
        loss_at = self.derivation.loss_at
        return parts if loss_at is None else passes(parts, loss_at(parts))[0]

    def assigned(self, name: str) -> list[Step]:
        """The steps of a pass that are assignments. Argument name: "forward" or "backward"."""
        if name == "backward":
            steps = [step for step in self.backward.steps if self.backward.is_backward(step.number)]
        else:
            steps = [step for step in self.forward.steps if not (
                self.derivation.loss_at and self.backward.is_backward(step.number))]
        return [step for step in steps if step.kind == "assign"]

    @cached_property
    def links(self) -> dict[Origin, Origin]:
        """The forward's assignment of each argument of the backward, as origins (step, target)."""
        if self.derivation.loss_at is not None:
            return {(step.number, i): (step.number, i) for step in self.forward.steps
                    if not self.backward.is_backward(step.number)
                    for i in range(len(step.targets))}
        origins: dict[tuple[Any, ...], list[Origin]] = defaultdict(list)
        for origin, memory in self.forward.memory.items():
            if self.forward.steps[origin[0]].kind != "return":
                origins[memory].append(origin)
        return {origin: self._nearest(self.backward.target(origin).name, origins[memory])
                for origin, memory in self.backward.memory.items()
                if origin[0] == 0 and memory in origins and (
                    not self.derivation.is_users or self._is_unchanged(origin, origins[memory]))}

    def _is_unchanged(self, origin: Origin, origins: list[Origin]) -> bool:
        """Whether an argument of the backward has the numbers that the forward assigned. It does
        not if the forward filled the array later."""
        target = self.backward.target(origin)
        before = self.forward.target(self._nearest(target.name, origins))
        return bool(np.array_equal(np.asarray(target.value), np.asarray(before.value)))

    def _nearest(self, name: str, origins: list[Origin]) -> Origin:
        """The assignment, among several of the same memory, that a backward's argument refers to.

        It is the assignment to the same name, or else the first one in the forward itself, or else
        the first one in its helpers.
        """
        outermost = [origin for origin in origins if self.forward.steps[origin[0]].frame == 0]
        same_name = [origin for origin in outermost
                     if self.forward.target(origin).name == name.partition(".")[2]]
        return (same_name or outermost or origins)[0]


def passes(trace_of_both: Trace, loss: Origin | None) -> tuple[Trace, Trace]:
    """Splits one run of a function that is both passes into the forward and the backward.

    Argument loss: the origin where the loss is assigned. The backward consists of the steps after
    it, and of the steps before it that assign a `dX` while the function has an X.
    """
    end = len(trace_of_both.steps) if loss is None else loss[0] + 1
    known: dict[int, set[str]] = defaultdict(set)
    gradients = set(range(end, len(trace_of_both.steps)))
    for step in trace_of_both.steps[:end]:
        names = [target.name.removeprefix("self.") for target in step.targets
                 if target.is_real]
        roots = {root_of(name) for name in names}
        if step.kind == "assign" and any(root[0] == "d" and {
                root[1:].lstrip("_"), f"{root[1:]}s"} & known[step.frame] for root in roots):
            gradients.add(step.number)
        known[step.frame] |= roots
    forward = replace(trace_of_both, steps=trace_of_both.steps[:end], end=loss)
    return forward, replace(trace_of_both, gradients=frozenset(gradients))
