"""The table of derivations that can be traced, read from the modules that declare them.

Every module of `grads.derivations` has `DECLARATIONS`, `PAIRS` and `SHARES`
(`grads.derivations.declaration`). A backward is recognised by its name: `f_grad` differentiates
`f`. The backward of a declaration differentiates its forward.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from grads import derivations
from grads.derivations.declaration import Declaration
from grads.stepper.tracing.nearest import nearest
from grads.stepper.tracing.pairing import Pairing
from grads.stepper.tracing.run import Break, Derivation, Run

__all__ = ["DERIVATIONS", "FOLLOW", "Derivation", "Run", "find"]

NAMES = [f"{derivations.__name__}.{module.name}" for module in iter_modules(derivations.__path__)]
MODULES = [import_module(name) for name in NAMES]


@cache
def depth(name: str) -> int:
    """The length of the longest chain of derivation modules that a module is built on."""
    used = {getattr(value, "__module__", "") for value in vars(import_module(name)).values()}
    return 1 + max(map(depth, used & {*NAMES} - {name}), default=0)


# In the order of reading: sentences before single steps, and each after what it is built on
DECLARED: list[Declaration] = sorted(
    (declaration for module in MODULES for declaration in getattr(module, "DECLARATIONS", ())),
    key=lambda declaration: ("sentence" not in declaration.settings,
                             depth(declaration.forward.__module__)))


def differentiated(module: ModuleType) -> dict[str, str]:
    """The functions of a module by the name of their backward: `f_grad` maps to `f`."""
    return {f"{name}_grad": name for name, value in vars(module).items()
            if f"{name}_grad" in vars(module) and value.__module__ == module.__name__}


APART = {declaration.forward.__module__ for declaration in DECLARED if declaration.apart}
HOLDING = {declaration.forward.__module__ for declaration in DECLARED}
FOLLOW = tuple(module for module in MODULES if module.__name__ not in APART
               and (differentiated(module) or module.__name__ in HOLDING))
PARTNERS = {backward: forward for module in MODULES
            for backward, forward in differentiated(module).items()}
WHOLES = {declaration.backward.__name__: declaration.forward.__name__ for declaration in DECLARED}
PAIRS = {name: partner for module in MODULES
         for name, partner in getattr(module, "PAIRS", {}).items()}
SHARES = {name: reason for module in MODULES
          for name, reason in getattr(module, "SHARES", {}).items()}


def declared(declaration: Declaration) -> Derivation:
    """The derivation that a declaration describes."""
    module = import_module(declaration.forward.__module__)
    wholes = {**WHOLES, declaration.backward.__name__: declaration.forward.__name__}
    gradients = {f"{backward}.gradients": "parameters" for backward in wholes}
    mistakes = tuple(
        Break(name, wrong.why, {wrong.function.rpartition(".")[2]: ((wrong.old, wrong.new),)})
        for name, wrong in declaration.mistakes.items())
    return Derivation(
        declaration.name, declaration.title, declaration.forward, declaration.backward,
        Pairing({**PARTNERS, **wholes, **declaration.partners}, {**gradients, **PAIRS}, SHARES),
        declaration.example, FOLLOW if module in FOLLOW else (*FOLLOW, module), mistakes,
        declaration.returns.loss, declaration.returns.given, settings=declaration.settings,
        sentence=declaration.sentence, recurrent=declaration.recurrent,
        gates=declaration.gates, attentive=declaration.attentive)


DERIVATIONS = {declaration.name: declared(declaration) for declaration in DECLARED}


def find(name: str) -> Derivation:
    """Find a derivation by name. Raises `UserError`, with the nearest name, if there is none."""
    derivation: Derivation = nearest(DERIVATIONS, name, "derivation")
    return derivation
