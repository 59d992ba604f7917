"""Looks for a change of a single expression or statement in the user's backward that makes the
gradients right.

A change counts for a gradient that is then right in all entries that are known, and at other
inputs, while right gradients stay right. If a change makes all gradients right, the search ends.
"""

from __future__ import annotations

import ast
import copy
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from grads.check.analytic import dense
from grads.check.diagnosis.candidates import (
    BRANCHES,
    VALUE,
    Arrays,
    Candidates,
    Numbers,
    Seen,
    evaluated,
    grows,
    kind,
    literal,
    plain,
)
from grads.check.diagnosis.elsewhere import Probe, right_elsewhere, right_in_general
from grads.check.diagnosis.evidence import Array, Evidence
from grads.check.diagnosis.factors import fitting, named_factors
from grads.check.diagnosis.instrument import (
    Hook,
    Hooked,
    called,
    exchanged,
    pasted,
    safe_views,
    sources_of,
    variables,
)
from grads.check.diagnosis.other_numbers import OtherNumbers, same
from grads.check.diagnosis.statements import changed_statements

SECONDS = 1.5  # of CPU
OFTEN = 20  # candidates, or changed values, between two looks at the clock, which is slow
UNSURE = 1e-4  # largest relative error of a gradient that is right now, and
SURE = 1e-7  # of the other gradients
EXACT = 1e3  # times the relative error that is allowed: of the other gradients that a change mends
ROUNDING = 1e-6  # times SURE and the wrong gradient: what may be left of terms that cancel
ALIKE = 1e-6  # relative difference of a factor that fits from one that has a name
LARGEST = 100_000  # in place of an integer
FACTORS = 4  # what is beyond it is rather a length or a setting than another number
GROWN = 100  # times as many entries as before: a change in a loop makes the value larger each time
ONLY_HERE = ", but only with these sizes and settings"


class Edits:
    """The search for changes in the functions that a backward calls.

    Attributes: phrases, by name of a tensor, on the change that makes its gradient right; hooked,
    the functions; forwards, those that the forward calls; seen, the values of their expressions by
    number.
    """

    def __init__(self, probe: Probe, evidence: Evidence) -> None:
        self.probe, self.evidence, self.case = probe, evidence, probe.case
        self.phrases: dict[str, str] = {}
        self.ranks: dict[str, float] = {}
        self.seen: dict[int, Seen] = {}
        self.stop = time.process_time() + SECONDS
        self.kept: Any = None  # the forward's cache, if the backward can be run on it repeatedly
        self.exact: set[int] = set()  # expressions that change just the entries that are wrong
        self.fits = False  # whether the last change made a gradient right here
        self.writes = False  # whether the backward changes its upstream gradient
        self.numbers: OtherNumbers | None = None  # until a change is tried elsewhere
        self.original: Any = None
        self.original = self.gradients()
        try:
            self.kept = None if self.case.cacheless else self.case.forward(self.inputs())[1]
            codes = called(self.gradients)
        except Exception:  # it cannot be copied
            codes = []
        if not codes or any({*code.co_freevars} - {"__class__"} for code in codes):
            # or the forward makes functions
            self.kept = None
            codes = called(self.gradients)
        self.hooked = Hooked(sources_of(codes))
        self.forwards = sources_of(called(lambda: self.case.forward(self.inputs())))
        pair = evidence.pair
        largest = np.abs(pair.numeric[pair.known]).max(initial=0.0)
        least = max(ROUNDING * largest, 1e-300)
        self.limits: dict[str, tuple[Array, Any]] = {
            name: (numeric, SURE * np.abs(numeric[np.isfinite(numeric)]).max(initial=least))
            for name, numeric in evidence.others.items()}
        self.limits[evidence.name] = pair.numeric, np.minimum(
            2 * pair.allowed, UNSURE * largest or np.inf)
        self.wrong = [name for name in self.limits if not self.is_right(name, self.original)]
        exact = EXACT * float(pair.allowed.max()) / (largest or np.inf)
        for name in self.wrong:
            numeric, limit = self.limits[name]
            sure = exact * np.abs(numeric[np.isfinite(numeric)]).max(initial=0.0)
            self.limits[name] = numeric, np.minimum(limit, max(sure, SURE * least))
        if self.hooked.sources:
            with self.hooked.hook(self.record):
                self.gradients()
            with np.errstate(all="ignore"), safe_views():
                self.search()

    def inputs(self) -> dict[str, Array]:
        """Copies of the inputs."""
        return {key: np.array(a) for key, a in self.probe.evaluate.inputs.items()}

    def gradients(self) -> dict[str, Array]:
        """The gradients by name; empty if an output, or newly the upstream gradient, changes."""
        d = {key: np.array(a) for key, a in self.evidence.upstream.items()}
        kept = self.inputs() if self.case.cacheless else copy.deepcopy(self.kept)
        if kept is None:
            outputs, kept = self.case.forward(self.inputs())
            if not same(outputs, self.probe.evaluate.outputs):
                return {}
        made = {key: np.array(dense(a, key, self.probe.evaluate.inputs))
                for key, a in self.case.vjp(d, kept).items()}
        unchanged = same(d, self.evidence.upstream)
        self.writes |= self.original is None and not unchanged
        return made if unchanged or self.writes else {}

    def is_right(self, name: str, gradients: Arrays) -> bool:
        """Whether a gradient is right where it is known."""
        (numeric, limit), gradient = self.limits[name], gradients.get(name)
        known = np.isfinite(numeric)
        return gradient is not None and gradient.shape == numeric.shape and bool(
            (np.abs(gradient - numeric) <= limit)[known].all())

    def is_exact(self, made: Arrays) -> bool:
        """Whether gradients differ from the original ones in just the entries that are wrong."""
        return all(((made[name] != self.original[name]) == (np.abs(
            self.original[name] - numeric) > limit))[np.isfinite(numeric)].all()
            for name, (numeric, limit) in self.limits.items() if name in self.wrong)

    def is_zero(self, name: str) -> bool:
        """Whether a right gradient is zero, where it is known: to leave it out says nothing."""
        numeric, limit = self.limits[name]
        return not (np.abs(numeric) > limit).any()

    def record(self, number: int, value: Any) -> Any:
        """A hook that keeps the last value of each expression that is not zero."""
        if kind(value):
            before = self.seen.get(number)
            varies = before is not None and (
                before.varies or not np.array_equal(before.value, value))
            seen = before
            if seen is None or np.any(value) or not np.any(seen.value):
                spaces = variables(sys._getframe(1))
                seen = Seen(copy.copy(value), self.unlike_local(*spaces), False, False)
            self.seen[number] = seen._replace(again=before is not None, varies=varies)
        return value

    def unlike_local(self, space: dict[str, Any], local: Any) -> tuple[dict[str, Any], Any]:
        """Variables, without global ones that have the name of a local one in another function."""
        sources = [*self.hooked.sources, *self.forwards]
        names = {name for source in sources for name in source.function.__code__.co_varnames}
        return {name: value for name, value in space.items() if name not in names}, local

    def works(self, said: Callable[[], str], hook: Hook | None = None) -> bool:
        """Note for which gradients a change works; whether it works for all.

        A change that works for some is noted with the gradients that it changes and leaves wrong.
        Arguments: said, which returns the phrase on the change; hook, which makes it, or None if
        it is in the trees of the functions.
        """
        self.fits = False
        try:
            made = self.gradients()
            if not made or not all(self.is_right(name, made) for name in self.limits
                                   if name not in self.wrong):
                return False
            right = [name for name in self.wrong if self.is_right(name, made)]
            telling = [name for name in right if not self.is_zero(name)]
            self.fits = bool(telling)
            if all(self.ranks.get(name, 0) >= len(right) for name in telling):
                return False  # none, or another change mends as many
            most, self.hooked.most = self.hooked.most, sys.maxsize  # of many runs
            try:
                self.numbers = self.numbers or OtherNumbers(
                    self.hooked, self.forwards, self.stop,
                    lambda: self.case.forward(self.inputs())[0], self.probe.evaluate.outputs)
                with self.numbers.put_in(hook):
                    general = all(right_in_general(
                        self.probe, self.evidence.upstream, name, self.stop,
                        partial(self.numbers.put_in, lambda _, value: value),
                        self.limits.keys() - {*self.wrong}) for name in telling)
                mended = [name for name in right if name not in telling or ((
                    general or name not in self.probe.doubted) and self.confirmed(name))]
                if mended and self.case.cacheless and not same(
                        self.case.forward(self.inputs())[0], self.probe.evaluate.outputs):
                    return False  # the change is one of the forward
            finally:
                self.hooked.most = most
        except Exception:
            return False
        if not {*mended} & {*telling}:
            return False
        left = [name for name in self.wrong if name not in mended
                and not np.array_equal(made[name], self.original[name], equal_nan=True)
                and not self.is_right(name, made)]
        phrase = said() + f", which leaves {', '.join(left)} wrong" * bool(left)
        if not general:
            self.probe.doubted = dict.fromkeys(mended, phrase + ONLY_HERE) | self.probe.doubted
            return False
        rank = len(mended) - len(left)
        for name in mended:
            if rank > self.ranks.get(name, -len(self.wrong)):
                self.ranks[name], self.phrases[name] = rank, phrase
        return mended == self.wrong

    def confirmed(self, name: str) -> bool:
        """Whether a gradient is right at other inputs, too."""
        entries = [self.limits[name][0], self.original[name]]
        return right_elsewhere(self.probe, self.evidence.upstream, name,
                               float(np.nanmax(np.abs(entries))))

    def influential(self) -> tuple[list[int], set[int]]:
        """The expressions that may change a wrong gradient, and no right gradient or output; the
        lines in which another expression may change only wrong gradients."""
        without: set[int] = set()
        lines = {site.line for site in self.hooked.sites}
        kept, harmful = set[int](), set[int]()
        for number, seen in self.seen.items():
            changed = self.changed(number) if kind(seen.value) == "f" else self.wrong
            if self.hooked.sites[number].root == number:
                harms = changed is None or bool(set(changed) - {*self.wrong})
                (harmful if harms else kept).add(self.hooked.sites[number].line)
                if harms or not changed:
                    without.add(number)
        numbers = [n for n in self.seen if self.hooked.sites[n].root not in without]
        return numbers, lines - (harmful - kept)

    def changed(self, number: int) -> list[str] | None:
        """The gradients that an expression changes, right ones only if they are wrong then; None if
        that is not known."""

        def change(k: int, value: Any) -> Any:
            return value if k != number else value * (
                1 + 1e-2 * np.random.default_rng(1).normal(size=np.shape(value)))

        if time.process_time() > self.stop:
            return None
        try:
            with self.hooked.hook(change, self.stop):
                made = self.gradients()
            if self.is_exact(made):
                self.exact.add(number)
            return [name for name in self.limits if not (
                same({name: made[name]}, self.original) if name in self.wrong else
                self.is_right(name, made))]
        except Exception:
            return None

    def search(self) -> None:
        """Try all changes until one of them makes all gradients right, or the time is over."""
        numbers, lines = self.influential()
        sites = self.hooked.sites
        exact = {n for n in numbers if n in self.exact or kind(self.seen[n].value) != "f"}
        numbers.sort(key=lambda n: (n not in exact, len(sites[n].text)))
        candidates, tried = Candidates(self.hooked, self.forwards, self.seen), set[Any]()
        conditions = candidates.conditions(numbers)
        numbers = [number for number in numbers if sites[number].root not in conditions]
        if self.in_place(candidates.likely(numbers), tried):
            return
        for source, phrase in changed_statements(
                self.hooked.sources, self.forwards, lines):
            if time.process_time() > self.stop:
                return
            try:
                code = source.compiled(source.tree)
            except (SyntaxError, ValueError, StopIteration):
                continue
            with exchanged([(source.function, code)], None, self.stop, self.hooked):
                if self.works(phrase):
                    return
        branches = (((number,), text) for number, texts in conditions.items() for text in texts)
        factors = self.factors(numbers, candidates.values)
        self.in_place(chain(branches, factors, candidates.all(numbers, exact)), tried)

    def factors(
        self, numbers: list[int], values: Arrays
    ) -> Iterator[tuple[Numbers, str]]:
        """Each expression times the factor that the gradient lacks, if that has a name.

        A gradient is linear in most of its expressions. So its values with an expression once and
        twice tell which factor makes it right. Arguments: values, of variables and expressions.
        """
        known = named_factors(values, self.hooked.sources)
        for number in numbers:
            seen, constant = self.seen[number], literal(self.hooked.sites[number].node)
            if kind(seen.value) != "f" and not constant:
                continue
            try:
                double = self.change((number,), f"2 * {VALUE}", sys.maxsize)
                with self.hooked.hook(double, self.stop):
                    fits = fitting(self.gradients(), self.original, [
                        (name, self.limits[name][0]) for name in self.wrong])
            except Exception:
                continue
            if fits is None or not np.isfinite(fits):
                continue
            named = [((number,), "-" * (fits < 0) + text) for factor, text in known
                     if abs(abs(fits) / factor - 1) < ALIKE]
            if not 1 / FACTORS <= abs(fits) <= FACTORS:
                yield from named
            if constant and plain(new := float(f"{fits * seen.value:.6g}")):
                yield (number,), repr(new).removesuffix(".0")
            yield from named

    def in_place(self, candidates: Iterator[tuple[tuple[int, ...], str]], tried: set[Any]) -> bool:
        """Try candidates in place of expressions; whether one makes all gradients right."""
        for count, (numbers, text) in enumerate(candidates):
            if count % OFTEN == 0 and time.process_time() > self.stop:
                return True
            seen, site = self.seen[numbers[0]], self.hooked.sites[numbers[0]]
            try:
                value = evaluated(text, seen.value, *seen.spaces)
            except Exception:
                continue
            shape, letter = np.shape(seen.value), kind(seen.value)
            fits = kind(value) == letter and (
                np.shape(value) == (*shape, 1) or grows(shape, np.shape(value))
                or (VALUE not in text and np.ndim(value) == len(shape)))
            if not (fits or text in BRANCHES or (kind(value) and literal(site.node))) or (
                    site.inside_index and np.shape(value) != shape):
                continue
            if f"{VALUE}.T" in text and len(shape) < 2:
                continue  # a vector has no transpose
            if letter == "f" and np.isfinite(seen.value).all() and not np.isfinite(value).all():
                continue  # with infinities, a function of a library may not end
            if letter == "i" and not shape and np.ndim(value) == 0 and abs(value) > LARGEST:
                continue  # it may be a length
            by_text = seen.again or text in BRANCHES or "copy" in text
            key = numbers, text if by_text else (np.shape(value), np.asarray(value).tobytes())
            if key in tried or (np.array_equal(value, seen.value) and not by_text):
                continue
            largest = GROWN * max(1, np.size(seen.value), np.size(value))
            hook = self.change(numbers, text, largest)
            with self.hooked.hook(hook, self.stop):
                if self.works(partial(self.said, numbers, text, value), hook):
                    return True
            if not self.fits:
                tried.add(key)
        return False

    def change(self, numbers: tuple[int, ...], text: str, largest: int) -> Hook:
        """A hook that puts a candidate in place of some expressions. It fails if a value has more
        entries than the largest, or the time is over."""
        changes = 0

        def hook(number: int, value: Any) -> Any:
            nonlocal changes
            if number not in numbers:
                return value
            changes += 1
            late = changes % OFTEN == 0 and time.process_time() > self.stop
            new = evaluated(text, value, *variables(sys._getframe(1)))
            if late or max(np.size(value), np.size(new)) > largest:
                raise RuntimeError("an array grows in a loop, or the time is over")
            return new

        return hook

    def said(self, numbers: tuple[int, ...], text: str, value: Any) -> str:
        """The phrase on a change to a value."""
        site, seen = self.hooked.sites[numbers[0]], self.seen[numbers[0]]
        old = site.text
        inner = old if isinstance(site.node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript,
                                              ast.Constant)) else f"({old})"
        new = ast.unparse(ast.parse(text.replace(VALUE, inner), mode="eval")).replace(".T.T", "")
        constant = literal(site.node)
        if (constant or isinstance(site.node, ast.Constant)) and (
                text.replace(VALUE, "") in (" + 1", " - 1", "-", "not ")):
            new = str(eval(new))
        size = kind(value) == "i" and np.ndim(value) == 0 and not seen.varies and not constant
        return (f"is right with `{pasted(site.function, site.node, new)}` in place of "
                + self.hooked.name(numbers[0], len(numbers) > 1)
                + f", or with anything else that is {value}" * (
                    size and (text.isidentifier() or ".shape" in text)))
