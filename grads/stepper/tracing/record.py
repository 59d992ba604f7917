"""The listener that records a trace: every assignment, what it read, and where that was
assigned."""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from operator import length_hint
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from grads.check.nesting import is_branch
from grads.check.substitution import attributes_of
from grads.stepper.tracing.program import Program
from grads.stepper.tracing.rewrite import Site
from grads.stepper.tracing.syntax import Written
from grads.stepper.tracing.values import (
    Binding,
    Field,
    Kept,
    Path,
    is_array,
    is_plain,
    items,
    keep,
    leaves,
    memory_of,
    shortened,
    text_of,
    unpack,
)

STEPS = 100_000  # assignments and loop iterations after which a run is stopped

Loops = tuple[tuple[str, int], ...]
Origin = tuple[int, int]  # number of a step, number of its target


class Target(NamedTuple):
    """An array, a number or a plain value that a step assigned."""

    name: str  # with index values: "h[2]"; "h[2][1]" for layer 1 of a list of layers
    written: str  # as in the source: "h[t]"
    value: Any  # at that time: array, number, string or list; a large array's first entries
    shape: tuple[int, ...] | None  # full shape; None for neither an array nor a number
    sliced: bool  # whether `value` has only the first entries along each axis
    same_as: Origin | None  # the earlier target whose memory this one shares
    place: Path | None = None  # path to this target in the value that the step assigned

    @property
    def is_real(self) -> bool:
        """Whether it is an array of real numbers, or a real number."""
        return self.shape is not None and np.asarray(self.value).dtype.kind == "f"

    def shortened(self, keep: int) -> Target:
        """The same target with at most `keep` numbers of its value."""
        kept = shortened(Kept(self.value, self.shape, self.sliced), keep)
        return self._replace(**kept._asdict())


class Read(NamedTuple):
    """A variable that a step read on its right-hand side."""

    name: str  # with the values of its indices: "h[1]"
    written: str  # "h[t - 1]"
    origins: tuple[Origin, ...]  # the targets that hold its value; a container has several


class Step(NamedTuple):
    """An assignment that was executed, a call with its arguments, or a return with its value."""

    number: int
    kind: str  # "assign" | "call" | "return"
    function: str
    file: str
    line: int
    end_line: int
    text: str  # of the statement, without comments
    comment: str
    equations: tuple[str, ...]  # in the comment: ("2.36",)
    loops: Loops  # running loops, outermost first, with those of callers: (("t", 2), ("l", 1))
    own_loops: Loops  # the running loops of this call only
    frame: int  # number of the call that the step belongs to
    depth: int  # number of calls around it; 0 in the traced function
    targets: tuple[Target, ...]
    reads: tuple[Read, ...]
    site: int  # number of the statement in the program


class Call(NamedTuple):
    """A call of a rewritten function."""

    number: int
    function: str
    caller: int | None  # number of the calling frame
    loops: Loops  # running loops at the time of the call
    owner: int | None = None  # id() of the object that the method was called on


class Reading(NamedTuple):
    """The reading of a variable, which a replay can perturb."""

    name: str
    frame: int
    own_loops: Loops
    chain: int  # number of the expression that reads it
    known: dict[str, tuple[Origin, Path]]  # the frame's names at that time: `Frame.known`


class Frame:
    """A call that is being recorded: its variables and the iterations of its loops."""

    def __init__(self, recorder: Recorder, site: Site, number: int, caller: Frame | None) -> None:
        self.recorder, self.number, self.caller = recorder, number, caller
        self.function = site.function
        self.depth: int = caller.depth + 1 if caller else 0
        self.outer: Loops = (*caller.outer, *caller.loops(caller.around)) if caller else ()
        self.around: tuple[int, ...] = ()  # loops around the current statement
        self.iterations: dict[int, int] = {}
        self.counts_down: dict[int, int] = {}  # loop -> the number of its first iteration, plus 1
        self.known: dict[str, tuple[Origin, Path]] = {}  # "h[2]" -> last assignment, path
        self.roots: dict[str, Any] = {}  # "h" -> the object that was assigned
        self.pending: list[tuple[int, Path, Any]] = []  # chain, path, root value
        self.is_noted = recorder.noted is None or site.function in recorder.noted

    # --- what a rewritten function calls

    def entered(self, number: int, values: tuple[Any, ...]) -> Any:
        attributes: list[Any] = []
        if "." in self.function:  # a method
            calls = self.recorder.calls
            calls[self.number] = calls[self.number]._replace(owner=id(values[0]))
            attributes = [(Binding(Written("self", (f".{name}",), f"self.{name}"), None, value), ())
                          for name, value in attributes_of(values[0]).items() if has_arrays(value)]
        return self.assign(number, values, ((),) * len(values), attributes)

    def assign(self, number: int, value: Any, indices: tuple[Path, ...],
               held: Sequence[tuple[Binding, Path]] = ()) -> Any:
        site = self.recorder.program.sites[number]
        self.around = site.loops
        targets: list[tuple[Binding, Path]] = []
        for pattern in site.targets:
            value, bindings = unpack(pattern, value)
            if bindings is None:
                return value
            targets += zip(bindings, indices[len(targets):], strict=False)
        self.recorder.step(self, number, [*targets, *held])
        return value

    def returned(self, number: int, value: Any) -> Any:
        return self.assign(number, value, ((),))

    def iteration(self, number: int, index: Any) -> None:
        loop = self.recorder.program.loops[number]
        self.iterations = {k: n for k, n in self.iterations.items()
                      if number not in self.recorder.program.loops[k].outer}
        if number in self.counts_down:
            counted = self.iterations.get(number, self.counts_down[number]) - 1
        else:
            counted = self.iterations.get(number, 0) + 1
        self.iterations[number] = counted if loop.counted or not hasattr(index, "__index__") \
            else index.__index__()
        self.around = (*loop.outer, number)
        self.pending.clear()
        self.recorder.count()

    def counted_down(self, number: int, iterable: Any) -> Any:
        if count := length_hint(iterable):
            self.iterations.pop(number, None)
            self.counts_down[number] = count + 1
        return iterable

    def read(self, number: int, value: Any) -> Any:
        chain = self.recorder.program.chains[number]
        self.around = chain.loops  # a call comes after its arguments were read
        if not self.is_noted:
            return value
        self.recorder.readings.append(
            Reading(chain.name, self.number, self.loops(chain.loops), number, self.known))
        self.pending.append((number, (), value))
        return value

    def item(self, number: int, value: Any, indices: Path) -> Any:
        if not self.is_noted:
            return value
        path = path_of(self.recorder.program.chains[number].parts, indices)
        for i in range(len(self.pending) - 1, -1, -1):
            if self.pending[i][0] == number:
                self.pending[i] = (number, path, self.pending[i][2])
                break
        return value

    def leave(self) -> None:
        self.recorder.current = self.caller

    # --- loops

    def loops(self, numbers: Iterable[int]) -> Loops:
        """The names and current indices of loops."""
        return tuple((self.recorder.program.loops[n].name, self.iterations[n])
                     for n in numbers if n in self.iterations)


class Recorder:
    """Records the steps of one run of a program.

    Arguments: program, the rewritten function; limit, how many numbers of an array are kept; held,
    the size up to which arrays are kept alive; arguments of the run, whose arrays stay alive in any
    case; noted, the names of the functions whose readings are recorded (None: all). With names,
    nothing is recorded about the memory of arrays, and the trace cannot be replayed.
    """

    def __init__(
        self, program: Program, limit: int, held: float = math.inf, arguments: Any = (),
        noted: Collection[str] | None = None,
    ) -> None:
        self.program, self.limit, self.held, self.noted = program, limit, held, noted
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        self.readings: list[Reading] = []
        self.current: Frame | None = None
        self.counted = 0
        self.alive: dict[Origin, Any] = {}  # keeps the memory and ids noted below valid
        self.arguments = {id(owner_of(leaf)) for _, leaf in leaves(arguments)}  # alive in any case
        self.references: list[weakref.ref[Any]] = []  # to arrays larger than `held`
        self.places: dict[tuple[Any, ...], Origin] = {}  # memory -> its latest target
        self.memory: dict[Origin, tuple[Any, ...]] = {}  # target -> its memory

    def enter(self, number: int) -> Frame:
        site, caller = self.program.sites[number], self.current
        self.current = Frame(self, site, len(self.calls), caller)
        self.calls.append(Call(len(self.calls), site.function, caller.number if caller else None,
                               self.current.outer))
        return self.current

    def count(self) -> None:
        """Count a step or an iteration. Raises `UserError` when there are too many."""
        self.counted += 1
        if self.counted > STEPS:
            frame = self.current
            raise UserError(
                f"{frame.function if frame else 'the function'} has not ended after "
                f"{STEPS} assignments and loop iterations: "
                "does a loop never end?")

    # --- steps

    def step(self, frame: Frame, place: int, bindings: list[tuple[Binding, Path]]) -> None:
        """Record the assignments of a statement."""
        self.count()
        site = self.program.sites[place]
        number = len(self.steps)
        inner = frame.loops(site.loops)
        reads = self.reads(frame, site)
        targets: list[Target] = []
        frame.known = known = dict(frame.known)  # a copy: readings hold the names as they were
        for binding, indices in bindings:
            root = path_of(binding.target.parts, indices)
            name = binding.target.name + text_of(root)
            for old in [old for old in known if old.startswith(name) and belongs(old, name)]:
                del known[old]
            if not root:
                frame.roots[name] = binding.value
            for path, leaf in leaves(binding.value):
                origin = (number, len(targets))
                if site.kind != "return":
                    known[name + text_of(path)] = origin, (*root, *path)
                targets.append(self.target(binding, name + text_of(path), path, leaf, targets))
        self.steps.append(Step(
            number, site.kind, site.function, site.file, site.line, site.end_line, site.text,
            site.comment, site.equations, (*frame.outer, *inner), inner, frame.number, frame.depth,
            tuple(targets), reads, place))

    def target(self, binding: Binding, name: str, path: Path, leaf: Any,
               before: list[Target]) -> Target:
        """The record of one leaf of an assigned value. Argument before: the step's targets so
        far."""
        kept, original = keep(leaf, self.limit), None
        memory = memory_of(leaf) if self.noted is None else None
        if memory is not None:
            original = self.places.get(memory)
            if original is not None:
                step, i = original
                earlier = (self.steps[step].targets if step < len(self.steps) else before)[i]
                original = original if equal(earlier.value, kept.value) else None
            self.hold(leaf, memory, (len(self.steps), len(before)))
        place = None if binding.path is None else (*binding.path, *path)
        return Target(name, binding.target.text, *kept, original, place)

    def hold(self, leaf: Any, memory: tuple[Any, ...], origin: Origin) -> None:
        """Note which target lies in a memory, until that memory is free for other arrays."""
        self.places[memory], self.memory[origin] = origin, memory
        owner = owner_of(leaf)
        if (not isinstance(owner, np.ndarray) or owner.size <= self.held
                or id(owner) in self.arguments):
            self.alive[origin] = leaf
        else:
            self.references.append(weakref.ref(owner, partial(self.forget, origin)))

    def forget(self, origin: Origin, _reference: Any) -> None:
        """Forget a target whose memory has become free."""
        memory = self.memory.pop(origin)
        if self.places.get(memory) == origin:
            del self.places[memory]

    # --- reads

    def origins(self, frame: Frame, name: str, path: Path, root: Any, leaf: Any) -> list[Origin]:
        """Where a leaf of a variable was assigned. It is found by its name, or else by its
        memory."""
        if frame.roots.get(name, frame) is root:
            known = frame.known.get(name + text_of(path))
            if known is not None:
                return [known[0]]
        memory = memory_of(leaf)
        return [self.places[memory]] if memory in self.places else []

    def reads(self, frame: Frame, site: Site) -> tuple[Read, ...]:
        """The variables that the right-hand side of a statement has read."""
        reads: dict[str, Read] = {}
        for number, path, root in frame.pending:
            chain = self.program.chains[number]
            name = chain.name + text_of(path)
            if number in site.chains and name not in reads:
                origins = self.below(frame, chain.name, path, root)
                if origins:
                    reads[name] = Read(name, chain.text, origins)
        frame.pending = [pending for pending in frame.pending if pending[0] not in site.chains]
        return tuple(reads.values())

    def below(self, frame: Frame, name: str, path: Path, root: Any) -> tuple[Origin, ...]:
        """The targets inside an entry of a variable; if the entry has none, those of what contains
        it."""
        value: Any = root
        walked: Path = ()
        for step in path:
            inner = next((entry for key, entry in items(value) if same_key(key, step)), items)
            if inner is items and isinstance(step, Field) and hasattr(value, "__dict__"):
                inner = getattr(value, step, items)  # of an object
            if inner is items:  # an entry of an array, or an attribute such as .T
                break
            value, walked = inner, (*walked, step)
        origins = [origin for inner_path, leaf in leaves(value) if is_array(leaf) or not inner_path
                 for origin in self.origins(frame, name, (*walked, *inner_path), root, leaf)]
        return tuple(dict.fromkeys(origins))


def has_arrays(value: Any) -> bool:
    """Whether a value is an array or a container with arrays."""
    return is_array(value) or (is_branch(value) and not is_plain(value))


def path_of(parts: Iterable[str], indices: Path) -> Path:
    """The path of a target or an operand as written, with the values of its indices."""
    where = iter(indices)
    return tuple(next(where) if step == "[" else Field(step[1:]) for step in parts)


def owner_of(value: Any) -> Any:
    """The array that owns a view's memory; the value itself if it is not a view."""
    while isinstance(value, np.ndarray) and value.base is not None:
        value = value.base
    return value


def equal(a: Any, b: Any) -> bool:
    """Whether two kept values hold the same numbers, whatever their shapes are."""
    return is_array(a) and is_array(b) and a.size == b.size and bool(
        np.array_equal(a.ravel(), b.ravel(), equal_nan=a.dtype.kind in "fc"))


def belongs(known: str, name: str) -> bool:
    """Whether the first name is the second or a part of it, as "h[2][1]" is of "h[2]"."""
    return known.startswith(name) and (len(known) == len(name) or known[len(name)] in "[.")


def same_key(key: Any, step: Any) -> bool:
    """Whether two steps of a path are the same."""
    return isinstance(step, Field) == isinstance(key, Field) and bool(key == step)
