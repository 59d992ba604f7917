"""Compiles the rewritten copies of functions beside the originals."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check.continuation.namespace import Replacements, namespaces_of, replaced
from grads.stepper.tracing.methods import installed, methods_of
from grads.stepper.tracing.parts import Parts
from grads.stepper.tracing.rewrite import LISTENER, Chain, Loop, Rewriter, Site
from grads.stepper.tracing.source import LAMBDA, Source

Edits = Mapping[str, Sequence[tuple[str, str]]]  # function name -> (old, new) pieces of its source


class Rewrites:
    """The rewritten functions of programs that follow the same functions. Each is rewritten once.

    Attributes: sites, chains, loops and texts (of parts), to which the rewritten code refers by
    number; codes, the code of each function by the way it is rewritten.
    """

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.chains: list[Chain] = []
        self.loops: list[Loop] = []
        self.texts: list[str] = []
        self.codes: dict[tuple[FunctionType, bool, bool, bool], CodeType] = {}


class Program:
    """A function, rewritten together with those functions among `follow` that it calls.

    Arguments: follow, modules (for all their functions), functions, and classes (for all their
    methods); parts, whether the parts of expressions are recorded too (their texts are then in the
    attribute `parts`); returns, whether an expression that a function returns is recorded like an
    assignment; others, functions that it may start at too (`starting_at`); rewrites, shared with
    other programs. Method `run` sets a listener and calls the function. Raises `UserError` for a
    function without source.
    """

    def __init__(self, function: Any, follow: Iterable[Any] = (), parts: bool = False,
                 returns: bool = False, others: Iterable[FunctionType] = (),
                 rewrites: Rewrites | None = None) -> None:
        rewrites = rewrites or Rewrites()
        self.parts = rewrites.texts if parts else None
        self.sites, self.chains, self.loops = rewrites.sites, rewrites.chains, rewrites.loops
        self.rewrites = rewrites
        self.returns = returns
        self.start, self.bound, self.keywords = unwrapped(function)
        start = self.start
        follow = list(follow)
        self.methods = methods_of(item for item in follow if isinstance(item, type))
        followed = {start, *functions_of(item for item in follow if not isinstance(item, type))}
        self.codes: dict[FunctionType, CodeType] = {}  # of each function, rewritten
        waiting = [*self.methods, start, *others]
        while waiting:
            called = waiting.pop()
            if called not in self.codes:
                key = called, parts, returns, self.records_returns(called)
                if key not in rewrites.codes:
                    rewrites.codes[key] = self.rewritten(called)
                self.codes[called] = rewrites.codes[key]
                waiting += [callee for callee in called_by(called)
                            if callee in followed and callee.__name__ != LAMBDA]
        self.link()

    def edited(self, edits: Edits) -> Program:
        """A copy of this program with pieces of its source replaced.

        Each piece must occur exactly once in its function. Only the changed functions are rewritten
        again. Raises `UserError` for an edit that does not fit.
        """
        unknown = set(edits) - {function.__name__ for function in self.codes}
        if unknown:
            raise UserError(f"edits: {', '.join(sorted(unknown))} is no function that "
                            f"{self.start.__name__} calls")
        changed = copy.copy(self)
        vars(changed).pop("spaces", None)
        changed.sites, changed.chains = [*self.sites], [*self.chains]
        changed.loops = [*self.loops]
        changed.codes = {
            function: changed.rewritten(function, edits[function.__name__])
            if function.__name__ in edits else code for function, code in self.codes.items()}
        changed.link()
        return changed

    def starting_at(self, function: FunctionType) -> Program:
        """The same program that starts at another of its functions."""
        other = copy.copy(self)
        other.start, other.entry = function, self.copies[function]
        return other

    def link(self) -> None:
        """Create the copies of the functions. While the program runs, their modules have the copies
        in place of the functions, and tables with the copies."""
        self.copies = {function: copy_of(function, code) for function, code in self.codes.items()}
        self.namespaces = {id(function.__globals__): function.__globals__
                           for function in self.copies}
        self.replacements: Replacements = {
            id(value): (value, with_copies(value, self.copies))
            for names in self.namespaces.values() for value in names.values()
            if any(called in self.copies for called in functions_in(value))}
        self.entry = self.copies[self.start]

    def run(self, listener: Any, *arguments: Any, **named: Any) -> Any:
        """Run the function and return its result. The listener is called for every assignment."""
        spaces = list(self.namespaces.values())
        before = [names.get(LISTENER) for names in spaces]
        random = np.random.get_state()  # so that every run gets the same
        try:
            with replaced(spaces, self.replacements), installed(self.methods, self.copies):
                for names in spaces:
                    names[LISTENER] = listener
                return self.entry(*self.bound, *arguments, **self.keywords | named)
        finally:
            np.random.set_state(random)
            for names, outer in zip(spaces, before, strict=True):
                names[LISTENER] = outer

    @cached_property
    def spaces(self) -> list[dict[str, Any]]:
        """The namespaces of the rewritten functions and of those that are not rewritten."""
        others = {id(space): space for space in namespaces_of(self.start) or []}
        return list((self.namespaces | others).values())

    def function_at(self, file: str, line: int) -> FunctionType:
        """The original function that contains the line of a step. It may be one of the forward,
        which returns an inner function to the backward."""
        functions = {*self.copies, *(key[0] for key in self.rewrites.codes)}
        return max((function for function in functions if function.__code__.co_filename == file
                    and function.__code__.co_firstlineno <= line),
                   key=lambda function: function.__code__.co_firstlineno)

    def records_returns(self, function: FunctionType) -> bool:
        """Whether an expression that this function returns is recorded like an assignment."""
        return self.returns and (function is self.start or function in self.methods)

    def rewritten(self, function: FunctionType, edits: Sequence[tuple[str, str]] = ()) -> CodeType:
        """The code of a function whose assignments all pass through the listener."""
        source = Source(function, edits)
        tree = source.tree
        if self.parts is not None:
            tree = Parts(tree, self.parts).named()
        tree.args.defaults, tree.args.kw_defaults = no_defaults(tree.args)
        tree.decorator_list = []
        free = function.__code__.co_freevars
        name = function.__qualname__ if function in self.methods else function.__name__
        rewriter = Rewriter(source, self.sites, self.chains, self.loops, name, frozenset(free),
                            self.records_returns(function), self.returns)
        maker = ast.parse(f"def _maker_({', '.join(free)}):\n    pass\n").body[0]
        assert isinstance(maker, ast.FunctionDef)
        global_name = [] if tree.name in free else [ast.Global([tree.name])]  # it may call itself
        maker.body = [*global_name, rewriter.rewrite(tree)]
        module = ast.fix_missing_locations(ast.Module(body=[maker], type_ignores=[]))
        code = compile(module, source.file, "exec", dont_inherit=True)
        return code_named(code_named(code, "_maker_"), function.__code__.co_name)


def copy_of(function: FunctionType, code: CodeType) -> FunctionType:
    """The rewritten function with the defaults, the closure and the module of the original."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    copied = FunctionType(code, function.__globals__, function.__name__, function.__defaults__,
                          closure)
    copied.__kwdefaults__, copied.__qualname__ = function.__kwdefaults__, function.__qualname__
    return copied


def unwrapped(function: Any) -> tuple[FunctionType, list[Any], dict[str, Any]]:
    """The plain function behind a method, a `functools.partial` or an object that can be called,
    and the arguments that are bound to it. Raises `UserError` if it is not written in Python."""
    plain: Any = function
    bound: list[Any] = []
    keywords: dict[str, Any] = {}
    while not isinstance(plain, FunctionType):
        if isinstance(plain, partial):
            bound, keywords = [*plain.args, *bound], plain.keywords | keywords
            plain = plain.func
        elif isinstance(plain, MethodType):
            plain, bound = plain.__func__, [plain.__self__, *bound]
        elif hasattr(plain, "__wrapped__"):  # by a cache
            plain = plain.__wrapped__
        elif isinstance(method := getattr(plain, "__call__", None), MethodType):  # noqa: B004
            plain = method
        else:
            raise UserError(f"{getattr(function, '__name__', function)!s} cannot be traced: "
                            "expected a function written in Python; write one with def that calls "
                            "it")
    return plain, bound, keywords


def functions_of(follow: Iterable[Any]) -> Iterator[FunctionType]:
    """The functions among `follow`, and those that its modules define."""
    for followed in follow:
        if isinstance(followed, ModuleType):
            yield from (value
                        for value in vars(followed).values() if isinstance(value, FunctionType)
                        and value.__module__ == followed.__name__ and value.__name__ != LAMBDA)
        else:
            yield unwrapped(followed)[0]


def called_by(function: FunctionType) -> list[FunctionType]:
    """The functions that a function uses by global names, directly or in tables."""
    used: list[str] = []
    codes = [function.__code__]
    for code in codes:
        used += code.co_names
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    values = (function.__globals__.get(name) for name in used)
    return [callee for value in values for callee in functions_in(value)]


def functions_in(value: Any, depth: int = 2) -> Iterator[FunctionType]:
    """A function, or the functions in a table (a dictionary or a tuple, possibly nested)."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, (dict, tuple)) and depth:
        for entry in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from functions_in(entry, depth - 1)


def with_copies(value: Any, copies: Mapping[FunctionType, FunctionType]) -> Any:
    """The copy of a function, or a table with the copies of its functions."""
    if isinstance(value, FunctionType):
        return copies.get(value, value)
    if isinstance(value, dict):
        return {with_copies(key, copies): with_copies(entry, copies)
                for key, entry in value.items()}
    if isinstance(value, tuple):
        parts = [with_copies(entry, copies) for entry in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def no_defaults(arguments: ast.arguments) -> tuple[list[ast.expr], list[ast.expr | None]]:
    """Removes the written defaults of parameters; the original function's values are used
    instead."""
    return ([ast.Constant(None) for _ in arguments.defaults],
            [None if default is None else ast.Constant(None) for default in arguments.kw_defaults])


def code_named(code: CodeType, name: str) -> CodeType:
    """The code of the function `name` that is defined directly inside another code."""
    return next(constant for constant in code.co_consts
                if isinstance(constant, CodeType) and constant.co_name == name)
