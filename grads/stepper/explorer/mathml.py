"""Turns a line of a user's own code into MathML, which browsers draw as a formula.

`dW += np.outer(da, h[t - 1])` becomes: dW ← dW + da hᵀ, where h has the index t - 1. `*` between
arrays becomes ⊙, the elementwise product. The factors of a matrix product stand side by side.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Container, Iterator
from html import escape
from typing import NamedTuple

MODULE = re.compile(r"self|(np|numpy|xp|cp|cupy|math|jnp|scipy|torch)(\.\w+)*")
OPERATORS: dict[str, ast.operator] = {
    "add": ast.Add(), "subtract": ast.Sub(), "multiply": ast.Mult(), "divide": ast.Div(),
    "power": ast.Pow(), "dot": ast.MatMult(), "matmul": ast.MatMult()}
REDUCTIONS = {"sum": "∑", "prod": "∏", "mean": "mean", "max": "max", "min": "min", "std": "std",
              "var": "var", "argmax": "argmax"}  # their second argument is an axis
NAMES = {"maximum": "max", "minimum": "min", "sigmoid": "σ", "sigm": "σ", "logistic": "σ"}
FILLED = {"zeros": "0", "zeros_like": "0", "ones": "1", "ones_like": "1"}
JOINED = {"concatenate": ";", "vstack": ";", "hstack": ","}
COPIES = {"copy", "array", "asarray", "astype", "float", "float64"}
FENCES = {"abs": "|", "fabs": "|", "absolute": "|", "norm": "‖"}
IGNORED = {"keepdims", "dtype", "out"}
COMPARISONS = {ast.Lt: "&lt;", ast.LtE: "≤", ast.Gt: "&gt;", ast.GtE: "≥", ast.Eq: "=",
               ast.NotEq: "≠"}
PLACES = {"None": "·", "np.newaxis": "·", "...": "…"}
ACCENTS = {"hat": "^", "tilde": "~", "bar": "¯"}
SPELLED = {"lambda": "lamda", "lamb": "lamda", "eps": "epsilon"}  # names of Unicode
LETTER = re.compile(r"[A-Za-z]\d*|[A-Z][a-z]{1,2}")  # W, W1 and Wxh: a letter with an index
INDEXED = re.compile(r"<msub>(.*?)<mrow>(.*)</mrow></msub>")  # as `_lowered` writes it

# How tightly a formula holds together: what stands in a tighter place than it has gets brackets.
COMPARED, SUM, ELEMENTS, MATRIX, WHOLE = range(5)


class Formula(NamedTuple):
    """The MathML of an expression, and how tightly its operator binds."""

    markup: str
    binds: int = WHOLE


class Scaled(ast.Mult):
    """A product with a number."""


def typeset(text: str, numbers: Container[str] = ()) -> str | None:
    """A statement as MathML: one element for each term of its sum, so that a long line breaks
    between them. None for a statement that is not an assignment, for an expression without a
    notation, and for `self.x = x`, whose two sides look the same.

    Arguments: text, the statement; numbers, the variables, as they are written, that are no arrays.
    """
    try:
        statement = ast.parse(text.strip()).body[0]
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and any(
                    isinstance(side, ast.Constant) or ast.unparse(side) in numbers
                    for side in (node.left, node.right)):
                node.op = Scaled()
        pieces = [f"<math>{piece}</math>" for piece in _statement(statement)]
    except (SyntaxError, LookupError):
        return None
    left, right = pieces[0], "".join(pieces[1:])
    if right == left.replace("<math>", "<math><mo>=</mo>"):  # self.x = x
        return None
    return f'<span class="own-line">{"<wbr/>".join(pieces)}</span>'


def _statement(node: ast.stmt) -> Iterator[str]:
    """The left side, then each term with the sign before it."""
    target: ast.expr
    value: ast.expr
    if isinstance(node, ast.AugAssign):
        target, value, sign = node.target, ast.BinOp(node.target, node.op, node.value), "←"
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value, sign = node.value, "="
    else:
        raise LookupError(type(node).__name__)
    yield _formula(target).markup
    for mark, term in _terms(value):
        yield f"<mo>{sign}</mo>" * bool(sign) + mark + term
        sign = ""


def _terms(node: ast.expr) -> Iterator[tuple[str, str]]:
    """The terms of a sum with their signs. Any other expression is a single term."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left)
        sign = "+" if isinstance(node.op, ast.Add) else "−"
        yield f'<mo form="infix">{sign}</mo>', _inside(node.right, ELEMENTS)
    else:
        yield "", _formula(node).markup


def _formula(node: ast.expr) -> Formula:
    """An expression. Raises LookupError if there is no notation for it."""
    match node:
        case ast.Name():
            return Formula(symbol(node.id))
        case ast.Constant(value=str(text)):
            return Formula(_text("mtext", text))
        case ast.Constant(value=int(number) | float(number)) if not isinstance(number, bool):
            return Formula(_number(number))
        case ast.BinOp():
            return _operation(node.left, node.op, node.right)
        case ast.UnaryOp(op=ast.USub()):
            return Formula(f'<mo form="prefix">−</mo>{_inside(node.operand, ELEMENTS)}', SUM)
        case ast.Compare(ops=[comparison], comparators=[right]) if type(comparison) in COMPARISONS:
            return Formula(f"{_inside(node.left, SUM)}<mo>{COMPARISONS[type(comparison)]}</mo>"
                           f"{_inside(right, SUM)}", COMPARED)
        case ast.Attribute(attr="T"):
            return Formula(_raised(node.value, "<mo>⊤</mo>"))
        case ast.Attribute() if MODULE.fullmatch(ast.unparse(node.value)):
            return Formula(symbol(node.attr))
        case ast.Attribute():
            return Formula(f"{_inside(node.value)}<mo>.</mo>{symbol(node.attr)}")
        case ast.Subscript():
            return Formula(_subscript(node))
        case ast.Tuple() | ast.List():
            joined = "<mo>,</mo>".join(_inside(item, COMPARED) for item in node.elts)
            return Formula(joined, COMPARED) if isinstance(node, ast.Tuple) else Formula(
                f"<mo>[</mo>{joined}<mo>]</mo>")
        case ast.Call():
            return _call(node)
    raise LookupError(type(node).__name__)


def _inside(node: ast.expr, place: int = WHOLE) -> str:
    """An expression as an operand, in brackets if it binds less tightly than the place requires."""
    markup, binds = _formula(node)
    return markup if binds >= place else f"<mrow><mo>(</mo>{markup}<mo>)</mo></mrow>"


def _operation(left: ast.expr, operator: ast.operator, right: ast.expr) -> Formula:
    """Two expressions and what is between them. A minus in front of a product needs no brackets."""
    first = SUM if isinstance(left, ast.UnaryOp) else None
    match operator:
        case ast.Add() | ast.Sub():
            sign = "+" if isinstance(operator, ast.Add) else "−"
            return Formula(f"{_inside(left, SUM)}<mo>{sign}</mo>{_inside(right, ELEMENTS)}", SUM)
        case ast.Mult():
            sign = "·" if isinstance(operator, Scaled) else "⊙"
            return Formula(f"{_inside(left, first or ELEMENTS)}<mo>{sign}</mo>"
                           f"{_inside(right, ELEMENTS)}", first or ELEMENTS)
        case ast.MatMult():
            return Formula(f'{_inside(left, first or MATRIX)}<mspace width="0.2em"/>'
                           f"{_inside(right, MATRIX)}", first or MATRIX)
        case ast.Div():
            return Formula(f"<mfrac><mrow>{_formula(left).markup}</mrow>"
                           f"<mrow>{_formula(right).markup}</mrow></mfrac>", MATRIX)
        case ast.Pow() if isinstance(right, ast.Constant) and right.value == 0.5:
            return Formula(f"<msqrt>{_formula(left).markup}</msqrt>")
        case ast.Pow():
            return Formula(_raised(left, f"<mrow>{_formula(right).markup}</mrow>"))
    raise LookupError(type(operator).__name__)


def _raised(base: ast.expr, exponent: str) -> str:
    """An expression with a superscript, which stands above its indices."""
    written = _inside(base)
    if indexed := INDEXED.fullmatch(written):
        return f"<msubsup>{indexed[1]}<mrow>{indexed[2]}</mrow>{exponent}</msubsup>"
    return f"<msup><mrow>{written}</mrow>{exponent}</msup>"


def _subscript(node: ast.Subscript) -> str:
    """A variable with all of its indices as subscripts, including those in its name."""
    places: list[str] = []
    base: ast.expr = node
    while isinstance(base, ast.Subscript):
        items = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
        places = [*map(_place, items), *places]
        base = base.value
    written = _inside(base)
    if indexed := INDEXED.fullmatch(written):
        written, places = indexed[1], [indexed[2], *places]
    return _lowered(written, "<mo>,</mo>".join(places))


def _place(node: ast.expr) -> str:
    """An index, or a slice."""
    if isinstance(node, ast.Slice):
        return "<mo>:</mo>".join(_formula(end).markup if end else ""
                                 for end in (node.lower, node.upper))
    if (written := ast.unparse(node)) in PLACES:
        return f"<mo>{PLACES[written]}</mo>"
    return _formula(node).markup


def _call(node: ast.Call) -> Formula:
    """A call of a function. A method is a function whose first argument is the object."""
    function, arguments = node.func, list(node.args)
    keywords = {word.arg: word.value for word in node.keywords if word.arg not in IGNORED}
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if isinstance(function, ast.Attribute) and not MODULE.fullmatch(ast.unparse(function.value)):
        arguments = [function.value, *arguments]
    if name in FILLED:
        return Formula(f"<mn>{FILLED[name]}</mn>")
    if not name or not arguments or set(keywords) - {"axis"}:
        raise LookupError(name)
    first, *others = arguments
    axis = keywords.get("axis") or (others.pop(0) if name in REDUCTIONS and others else None)
    label = _text("mi", REDUCTIONS[name]) if name in REDUCTIONS else symbol(NAMES.get(name, name))
    if name in JOINED and isinstance(first, (ast.List, ast.Tuple)):
        sign = JOINED[name] if axis is None or ast.unparse(axis) == "0" else ","
        inside = f"<mo>{sign}</mo>".join(_inside(item, SUM) for item in first.elts)
        return Formula(f"<mrow><mo>[</mo>{inside}<mo>]</mo></mrow>")
    if axis is not None:
        places = f"<mtext>axis\u00a0</mtext>{_formula(axis).markup}"
        return _function(_lowered(label, places), [first, *others])
    if name in OPERATORS and len(arguments) == 2:
        return _operation(first, OPERATORS[name], others[0])
    if name == "outer" and len(arguments) == 2:
        return _operation(first, ast.MatMult(), ast.Attribute(others[0], "T"))
    if name == "transpose" and not others:
        return Formula(_raised(first, "<mo>⊤</mo>"))
    if name in ("sqrt", "square") and not others:
        return _operation(first, ast.Pow(), ast.Constant(0.5 if name == "sqrt" else 2))
    if name in COPIES and not isinstance(first, (ast.List, ast.ListComp)):
        return _formula(first)
    if name in FENCES and not others:
        return Formula(f"<mrow><mo>{FENCES[name]}</mo>{_formula(first).markup}"
                       f"<mo>{FENCES[name]}</mo></mrow>")
    return _function(label, arguments)


def _function(name: str, arguments: list[ast.expr]) -> Formula:
    """A function's symbol with its arguments in brackets."""
    inside = "<mo>,</mo>".join(_formula(argument).markup for argument in arguments)
    return Formula(f"<mrow>{name}<mo>(</mo>{inside}<mo>)</mo></mrow>")


def symbol(name: str) -> str:
    """A variable's name: h_prev has an index, alpha is Greek, dWxh is d, then W with an index."""
    word, _, index = name.strip("_").partition("_")
    before = ""
    if word[:1] == "d" and (LETTER.fullmatch(word[1:]) or _greek(word[1:])):
        before, word = _letter("d"), word[1:]
    letter, places = word, ""
    if LETTER.fullmatch(word) and len(word) > 1:
        letter, places = word[0], _text("mn" if word[1:].isdigit() else "mi", word[1:])
    written = _letter(_greek(letter) or letter)
    first, _, rest = index.partition("_")
    if first in ACCENTS:
        written, index = f'<mover accent="true">{written}<mo>{ACCENTS[first]}</mo></mover>', rest
    for place in index.split("_") if index else ():
        places += "<mo>,</mo>" * bool(places) + (
            f"<mn>{place}</mn>" if place.isdigit() else _text("mi", _greek(place) or place))
    lowered = _lowered(written, places) if places else written
    return f"<mrow>{before}{lowered}</mrow>" if before else lowered


def _letter(name: str) -> str:
    """A name. A single letter gets a class, and the page sets it in its own italics, because the
    italics of mathematical fonts differ."""
    return f'<mi class="letter">{name}</mi>' if len(name) == 1 else _text("mi", name)


def _lowered(base: str, places: str) -> str:
    """A symbol with its indices."""
    return f"<msub>{base}<mrow>{places}</mrow></msub>"


def _greek(word: str) -> str:
    """The Greek letter of that name; empty for any other word."""
    size = "CAPITAL" if word[:1].isupper() else "SMALL"
    known = SPELLED.get(word, word)
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {known.upper()}") if len(word) > 1 else ""
    except KeyError:
        return ""


def _number(value: float) -> str:
    """A number. 1e-05 is written as a power of ten."""
    digits, _, power = repr(value).partition("e")
    ten = f"<msup><mn>10</mn><mn>{int(power)}</mn></msup>".replace("-", "−") if power else ""
    return ten if ten and digits == "1" else f"<mn>{digits}</mn>" + "<mo>·</mo>" * bool(ten) + ten


def _text(element: str, text: str) -> str:
    """An element that contains a text."""
    return f"<{element}>{escape(text)}</{element}>"
