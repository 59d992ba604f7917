"""Symbols of plain text as mathematics writes them: h_{t-1} with its index below the line, h~ with
its tilde, u o v with a circle.

Docstrings, comments and tables write formulas in plain text; code keeps them as they are.
"""

from __future__ import annotations

import re

PIECE = re.compile(r"(<[^>]+>)")
TAG = re.compile(r"</?([a-z]+[0-9]?)")
CODE = ("code", "pre", "script", "style", "svg", "math", "title")
GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε", "eps": "ε", "eta": "η",
         "lambda": "λ", "mu": "μ", "sigma": "σ", "tau": "τ"}
INDEX = r"(?:\{[^{}]*\}|\([^()]*\)|[A-Za-z]{1,4}\b|length\b|\d+\b|[A-Za-z](?=_))"
SYMBOL = re.compile(  # base, accent, then what stands above and below
    rf"(?<![\w.])(?<!\w/)(d?(?:{'|'.join(GREEK)}|hbar|PE|fed|1|[A-Za-z]))"
    rf"(~|_bar\b|_hat\b|(?:'|&#x27;)(?=_))?"
    rf"((?:[_^]{INDEX})*)(?!\w|\.[a-z])")
PART = re.compile(rf"([_^])({INDEX})")
ACCENTS = {"~": "\N{COMBINING TILDE}", "_bar": "\N{COMBINING MACRON}",
           "_hat": "\N{COMBINING CIRCUMFLEX ACCENT}", "'": "\N{PRIME}", "&#x27;": "\N{PRIME}"}
RAISED = re.compile(r"(?<=[)\]])\^(T\b|\d|\([^()]*\))")  # what stands above a parenthesis
WORDS = {"sqrt(": "√(", "hbar": "h\N{COMBINING MACRON}"}
WORD = re.compile(r"\b(?:sqrt\(|hbar\b)")
DOTS = re.compile(r" \.\.(?=[ ;])")
FUNCTION = re.compile(rf"\b({'|'.join(GREEK)})(?='|&#x27;|\()")
ARROW = re.compile(r"(?<![\w-])(-&gt;|&lt;-)(?=[a-z ])")
PRODUCT = re.compile(r"(?<=[\w)\]}'~>;]) o (?=[\w(\[<&])")
NAME = re.compile(r"(?<=<td><code>)[\w.]+(?=</code>)|(?<=>)[\w.]+(?=</a></td>)")  # breaks at dots
# Pages whose o is a product; one of another page may be a Turkish word.
CIRCLED = ("derivations", "reference/", "equations.md", "errata.md", "exchange.md")


def typeset(html: str, page: str) -> str:
    """The HTML of a page with the symbols of its prose typeset, those of code left as they are."""
    pieces, inside, depth = [], "", 0
    for piece in PIECE.split(html):
        tag = TAG.match(piece)
        if tag is None:
            pieces.append(piece if inside else written(piece))
            continue
        pieces.append(piece)
        name = tag[1]
        if not inside and (name in CODE or 'class="katex' in piece):
            inside, depth = name, 0
        if name == inside and not piece.endswith("/>"):
            depth += -1 if piece.startswith("</") else 1
            inside = inside if depth else ""
    made = NAME.sub(lambda match: re.sub(r"(?<=[._])", "<wbr>", match[0]), "".join(pieces))
    return PRODUCT.sub(" ∘ ", made) if page.startswith(CIRCLED) else made


def written(text: str) -> str:
    """A piece of text, of HTML without tags, with its symbols typeset."""
    text = ARROW.sub(lambda match: "→" if match[1] == "-&gt;" else "←", text)
    text = FUNCTION.sub(lambda match: GREEK[match[1]], text)
    text = RAISED.sub(lambda match: f"<sup>{index(match[1])}</sup>", SYMBOL.sub(symbol, text))
    return DOTS.sub(" …", WORD.sub(lambda match: WORDS[match[0]], text))


def symbol(match: re.Match[str]) -> str:
    """A symbol with an accent or an index; a word without either stays."""
    base, accent, parts = match.groups()
    if not (accent or parts) or (base == "d" and re.match(r"_[a-z]{3}", parts)):
        return match[0]  # d_memory is the gradient of memory
    before = "d" * (base[0] == "d" and len(base) > 1)
    name = base.removeprefix(before)
    if name == "hbar":
        name, accent = "h", "_bar"
    indices = "".join(f"<{tag}>{index(script)}</{tag}>"
                      for mark, script in PART.findall(parts)
                      for tag in ["sub" if mark == "_" else "sup"])
    return f"{before}{GREEK.get(name, name)}{ACCENTS.get(accent or '', '')}{indices}"


def index(script: str) -> str:
    """What stands above or below: without braces, with a minus that is one, typeset itself."""
    inner = script[1:-1] if script.startswith("{") else script
    return "⊤" if script == "T" else SYMBOL.sub(symbol, inner.replace("-", "−"))
