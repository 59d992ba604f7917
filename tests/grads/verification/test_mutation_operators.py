"""Each operator makes its mistakes, and does not change indices, shapes and errors."""

from __future__ import annotations

import ast

import pytest

from grads.verification.mutation.operators import OPERATORS, sites
from grads.verification.mutation.syntax import facts_of, parse

CELL = '''
def cell_backward(dh, dc, u, mask, layer, dz, T):
    """A docstring with a + b."""
    H = dh.shape[1]
    if mask is None and H < 1:
        raise ValueError(f"mask: expected {H + 1}")
    i, f = split(u)
    steps = empty((T + 1, 4 * H))
    for t, now in order(T):
        dz[t] = i * dh + f
        xp.copyto(dc[now, :H], 0.0, where=mask)
    dc = dc * (1.0 - u * u)
    dc += dh.copy() @ layer.weight.T
    return dz.sum(axis=0), layer.bias
'''


def changes(source, operator):
    """The replacements that an operator makes: (old, new)."""
    return [(site.old, site.new) for site in sites(source, [operator])]


@pytest.mark.parametrize("operator, expected", [
    ("sign", [("i * dh + f", "i * dh - f"), ("1.0 - u * u", "1.0 + u * u"),
              ("dc += dh.copy() @ layer.weight.T", "dc -= dh.copy() @ layer.weight.T")]),
    ("dropped term", [("i * dh + f", "i * dh"), ("i * dh + f", "f"), ("1.0 - u * u", "1.0"),
                      ("1.0 - u * u", "u * u")]),
    ("dropped factor", [("i * dh", "i"), ("i * dh", "dh"), ("dc * (1.0 - u * u)", "dc"),
                        ("dc * (1.0 - u * u)", "1.0 - u * u"), ("u * u", "u")]),
    ("slope", [("1.0 - u * u", "u - u * u")]),
    ("assignment", [("dz[t] = i * dh + f", "dz[t] += i * dh + f"),
                    ("dc += dh.copy() @ layer.weight.T", "dc[...] = dh.copy() @ layer.weight.T")]),
    ("dropped statement", [("dz[t] = i * dh + f", "pass"),
                           ("xp.copyto(dc[now, :H], 0.0, where=mask)", "pass"),
                           ("dc = dc * (1.0 - u * u)", "pass"),
                           ("dc += dh.copy() @ layer.weight.T", "pass")]),
    ("wrong time", [("t", "t - 1"), ("now", "now - 1")]),
    ("swapped names", [("t", "now"), ("i", "f"), ("f", "i"), ("now", "t")]),
    ("swapped arguments", [("dh.copy() @ layer.weight.T", "layer.weight.T @ dh.copy()"),
                           ("(dz.sum(axis=0), layer.bias)", "(layer.bias, dz.sum(axis=0))")]),
    ("transpose", [("dh.copy()", "dh.copy().T"), ("layer.weight.T", "layer.weight")]),
    ("mask", [("xp.copyto(dc[now, :H], 0.0, where=mask)", "xp.copyto(dc[now, :H], 0.0)"),
              ("xp.copyto(dc[now, :H], 0.0, where=mask)",
               "xp.copyto(dc[now, :H], 0.0, where=~mask)")]),
    ("other half", [(":H", "H:"), (":H", "-H:")]),
    ("axis", [("dz.sum(axis=0)", "dz.sum(axis=1)"), ("dz.sum(axis=0)", "dz.take(0, axis=0)")]),
    ("loop", [("order(T)", "list(order(T))[:1]"), ("order(T)", "list(order(T))[:-1]")]),
    ("branch", []),
    ("aliasing", [("dc = dc * (1.0 - u * u)", "dc *= 1.0 - u * u"), ("dh.copy()", "dh")]),
])  # fmt: skip
def test_mistakes_of_a_cell(operator, expected):
    assert changes(CELL, operator) == expected


@pytest.mark.parametrize("line, operator, expected", [
    ("xp.multiply(a, b, out=c)", "product for sum",
     [("xp.multiply(a, b, out=c)", "xp.add(a, b, out=c)")]),
    ("xp.multiply(a, b, out=c)", "dropped factor",
     [("xp.multiply(a, b, out=c)", "xp.multiply(1.0, b, out=c)"),
      ("xp.multiply(a, b, out=c)", "xp.multiply(a, 1.0, out=c)")]),
    ("xp.subtract(a, b, out=c)", "slope",
     [("xp.subtract(a, b, out=c)", "xp.subtract(1.0, b, out=c)")]),
    ("xp.subtract(a, b, out=c)", "sign",
     [("xp.subtract(a, b, out=c)", "xp.add(a, b, out=c)")]),
    ("c = a - b * b", "slope", [("a - b * b", "1.0 - b * b")]),
    ("c = f(-a)", "sign", [("-a", "a")]),
    ("c = xp.where(a, b, c)", "mask",
     [("xp.where(a, b, c)", "b"), ("xp.where(a, b, c)", "c")]),
    ("c = a[1:]", "other half", [("1:", ":1"), ("1:", ":-1")]),
    ("c = a[:, 0::2]", "other half", [("0::2", "1::2")]),
    ("c = a[::-1]", "other half", [("::-1", "::1")]),
    ("c = a[b + 1]", "wrong time", [("b + 1", "b")]),
    ("for t in reversed(range(b)): f(a[t])", "wrong time",
     [("reversed(range(b))", "range(b)"), ("t", "t - 1")]),
    ("while b > 1: f(a)", "loop", [("b > 1", "False")]),
    ("while b > 1: f(a)", "branch", [("b > 1", "b >= 1")]),
    ("if a is not None: return 2 * a", "branch",
     [("a is not None", "True"), ("a is not None", "False")]),
    ("if a is not None: a *= d", "branch", [("a is not None", "True")]),
    ("c = a if a and c else b", "branch",
     [("a and c", "True"), ("a and c", "False"), ("a and c", "c"), ("a and c", "a")]),
    ("c = f(a, c)", "swapped arguments", [("f(a, c)", "f(c, a)")]),
    ("c = f(xp, a, 2, len(a), c.T)", "swapped arguments", []),
    ("c = a or d", "branch", []),
    ("c = xp.matmul(a, c)", "transpose", [("a", "a.T"), ("c", "c.T")]),
    ("c = a.transpose(1, 0)", "transpose", [("a.transpose(1, 0)", "a")]),
    ("c = d | a", "dropped term", [("d | a", "d"), ("d | a", "a")]),
    ("b += 1", "assignment", []),
    ("n = len(a) - 1\n    c = a.reshape(n + 1, -1)", "sign", []),
])  # fmt: skip
def test_mistakes_of_a_line(line, operator, expected):
    assert changes(f"def f(a, b: int, c, d):\n    {line}", operator) == expected


def test_every_change_compiles_is_another_and_says_its_lines():
    mutations = sites(CELL)
    assert {site.operator for site in mutations} == set(OPERATORS) - {"product for sum", "branch"}
    assert len({site.source for site in mutations}) == len(mutations)
    assert ast.unparse(parse(CELL)) not in {site.source for site in mutations}
    for site in mutations:
        compile(site.source, "changed", "exec")
    [line] = {(site.first, site.last) for site in mutations if site.old == "i * dh"}
    assert line == (10, 10)


def test_what_names_stand_for():
    facts = facts_of(parse(CELL))
    assert "H" in facts.sizes and not facts.sizes & {"dh", "i"}
    assert facts.steps == {"t", "now"}
    assert facts.partners == {"i": "f", "f": "i", "t": "now", "now": "t"}


def test_only_functions_have_mutants():
    with pytest.raises(ValueError, match="expected a function written with def"):
        sites("f = lambda x: x")
