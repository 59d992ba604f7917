"""The derivations beside the equations: each line of grads/derivations with its formula, as the
stepper shows it, and what the line cites."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docstrings import escaped

from grads.stepper.explorer.formulas import formulas, key

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "grads" / "derivations"
MODULES = ("calculus", "rnn", "adding_memory", "gated_memory", "lstm", "nmt", "attention",
           "attention_step", "scores", "local", "gru", "gru_after", "lstm_norm", "residual",
           "rnnsearch", "deep_output", "hybrid", "multitask", "norms", "multihead", "transformer",
           "positions", "transformer_model", "countdown", "smoothing", "lexical", "lexicon",
           "two_sources", "features", "fusion", "units", "encoders", "decoders", "reading",
           "language_model")
WIDE = "---\nhide: [toc]\n---\n"
COMMENT = re.compile(r"(?<=\s)#\s*(.*)$")
CITES = re.compile(r"\(\D*\d+[\w.]*\)|\b(?:line|Algorithm|Eq\.|Lemma|Remark) \d")


def pages() -> dict[str, str]:
    """The Markdown of each module's page, by its path in docs/."""
    return {f"derivations/{name}.md": page(name) for name in MODULES}


def page(module: str) -> str:
    """A module: what its docstring says, and a table for each function that has a formula, or
    cites one. A module without formulas has a list of its functions."""
    text = (DIRECTORY / f"{module}.py").read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.split("\n")
    said = (ast.get_docstring(tree) or "").partition("\n\n")
    title = re.split(r" \(|[.:;](?:\s|$)", said[0])[0]
    parts = [f"{WIDE}# {title}", escaped(said[0]), f"The file: `grads/derivations/{module}.py`."]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    tables = [(function, rows) for function in functions
              if (rows := list(table(function, lines, module)))]
    for function, rows in tables:
        parts += [f"## {function.name}", described(function, module),
                  "\n".join(['<table class="derivation">', *rows, "</table>"])]
    if not tables:
        parts += [f"- `{function.name}`: {described(function, module)}" for function in functions]
    return "\n\n".join(parts) + "\n"


def described(function: ast.FunctionDef, module: str) -> str:
    """The first paragraph of a function's docstring, and a link to its line."""
    first = (ast.get_docstring(function) or "").partition("\n\n")[0]
    link = f"../../grads/derivations/{module}.py#L{function.lineno}"
    return f"{escaped(first)} [line {function.lineno}]({link})"


def table(function: ast.FunctionDef, lines: list[str], module: str) -> Iterator[str]:
    """A row for each line of a function that has a formula or cites one: formula, code, what it
    cites."""
    places = [function.name.removesuffix("_grad"), module]
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            code, comment = written(lines, node)
            formula = key(code, places)
            if formula or CITES.search(comment):
                html, tag = (formulas()[formula][of] if formula else "" for of in ("html", "tag"))
                kind = ' class="formula" data-search-exclude' if html else ""
                yield (f"<tr><td{kind}>{html}</td>"
                       f"<td><code>{escape(code)}</code></td>"
                       f"<td>{escape(comment or (f'({tag})' if tag else ''))}</td></tr>")


def written(lines: list[str], node: ast.stmt) -> tuple[str, str]:
    """A statement on one line, and the comments of its lines."""
    code = lines[node.lineno - 1:node.end_lineno]
    comments = [match[1] for line in code if (match := COMMENT.search(line))]
    return " ".join(" ".join(COMMENT.sub("", line) for line in code).split()), "; ".join(comments)
