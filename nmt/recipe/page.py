"""docs/recipe.md: every key of a recipe, its type, its default and what it means.

The meaning is the comment behind the field that declares the key. `nmt recipe --doc` prints it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lstm.cells import CELLS
from nmt.models.registry import MODELS
from nmt.models.rnnsearch_config import UNITS
from nmt.recipe import DEFAULT_ARCHITECTURE
from nmt.recipe.keys import ARCHITECTURE, Key, keys_of
from nmt.recipe.tasks import VOCABULARY_CHOICES

OPENING = """# The keys of a recipe

A recipe is a YAML file that describes a system and its training, such as
[`demo.yaml`](../nmt/recipes/demo.yaml). This page lists every key with its default and its meaning.
`nmt recipe FILE` prints a recipe with all defaults. `nmt recipe --doc` writes this page.

**Command line.** `--section.key VALUE` overrides the file.

**Base.** `base: other.yaml` starts from another recipe; the path is relative to the file. Keys of
a section replace those of the base one by one. A recipe with another `model.architecture` does not
take the base's `model` section. See [`thesis/`](../nmt/recipes/thesis): one base, and a small
recipe for each row of a table.

**Unused keys**, such as `data.test_size` for a corpus read from files, are an error, unless they
come from a base.

**Several tasks.** Instead of the sections, a recipe may have `tasks` (name: recipe; the first is
the reference), `ratios` (updates per update of the reference, default 1), `share` (`[encoder]`,
`[decoder]`, both, or for each part the tasks that share it) and `vocabularies` (of a shared side:
JOINED). See [Several tasks](multi-task.md).

**Architecture.** `model.architecture` is one of ARCHITECTURES; the
default is `DEFAULT`. A translator has the sections `data`, `search` and `evaluate`, a language
model has `text`.

**Corpus.** `data.corpus` is `files`; or a corpus made of one text: `copy`, `halves`, `neighbours`,
`dummy`; or generated: `cldr`, `reverse`. A meaning that begins with *files:* or *text:* applies to
this kind only.
"""
TABLES = {"one of CELLS": CELLS, "one of UNITS": UNITS}  # which comments name and the page lists
FIELD = re.compile(r"    (\w+): .*?  # (.+)")  # a field of a dataclass on one line, and its comment


class Section(NamedTuple):
    """A section with its keys, and the architectures whose recipes have it."""

    summary: str
    keys: Mapping[str, Key]
    architectures: list[str]
    base: str = ""  # another model section whose keys this one has; only differences are listed


def page() -> str:
    """The whole page."""
    names = ", ".join(f"`{name}`" for name in MODELS)
    opening = OPENING.replace("ARCHITECTURES", names).replace("DEFAULT", DEFAULT_ARCHITECTURE)
    opening = opening.replace("JOINED", " or ".join(f"`{choice}`" for choice in VOCABULARY_CHOICES))
    sections = sorted(_sections(), key=lambda entry: entry[0].startswith("`model`"))
    return "\n".join([opening, *(_section(heading, section) for heading, section in sections)])


def keys_in_short() -> str:
    """The names of a translator's keys, a paragraph for each section, for `nmt recipe --help`; as
    wide as the terminal, at most 100 columns."""
    sections: dict[str, dict[str, list[str]]] = {}  # section -> name -> names below it
    for key in keys_of(DEFAULT_ARCHITECTURE):
        section, name, *below = key.split(".")
        sections.setdefault(section, {}).setdefault(name, []).extend(below)
    width = min(100, shutil.get_terminal_size().columns) - 1
    lines = [textwrap.fill(f"--{section}. {', '.join(_braced(*item) for item in names.items())}",
                           width, break_on_hyphens=False, initial_indent="  ",
                           subsequent_indent="    ")
             for section, names in sections.items()]
    return "\n".join(["keys of a recipe, such as --train.epochs 5 (--doc explains them):", *lines])


def _braced(name: str, below: Sequence[str]) -> str:
    """A name, and in braces those below it: `subwords.{merges, joint}`."""
    return f"{name}.{{{', '.join(below)}}}" if below else name


def meaning(section: type, name: str) -> str:
    """The comment behind a field, also one that is inherited; "" if there is none."""
    for parent in section.__mro__:
        if name in inspect.get_annotations(parent):
            comment = dict(FIELD.findall(inspect.getsource(parent))).get(name, "")
            for table, names in TABLES.items():
                comment = comment.replace(table, " or ".join(", ".join(names).rsplit(", ", 1)))
            return comment
    return ""


def _sections() -> list[tuple[str, Section]]:
    """The sections of all architectures by heading, each once."""
    declared: dict[tuple[str, str], Section] = {}
    for architecture in MODELS:
        keys = {name: key for name, key in keys_of(architecture).items() if name != ARCHITECTURE}
        for section in dict.fromkeys(name.split(".")[0] for name in keys):
            own_keys = {name: key for name, key in keys.items() if name.split(".")[0] == section}
            heading = f"`{section}`" + f" of `{architecture}`" * (section == "model")
            known = declared.setdefault((heading, repr(own_keys)),
                                        Section(_summary(own_keys), own_keys, []))
            known.architectures.append(architecture)
    sections = [(heading, section) for (heading, _), section in declared.items()]
    return [(heading, _beside_base(section, sections[:place]))
            for place, (heading, section) in enumerate(sections)]


def _beside_base(section: Section, earlier: Sequence[tuple[str, Section]]) -> Section:
    """A model section without the lines of the earlier one that it has most in common with."""
    candidates = [section]
    for heading, base in earlier:
        if heading.startswith("`model`") and base.keys.keys() <= section.keys.keys():
            keys = {name: key for name, key in section.keys.items()
                    if name not in base.keys or _row(name, key) != _row(name, base.keys[name])}
            candidates.append(section._replace(keys=keys, base=heading))
    return min(candidates, key=lambda candidate: len(candidate.keys))


def _summary(keys: Mapping[str, Key]) -> str:
    """The first line of a section's docstring, without the part on errors."""
    line = str(inspect.getdoc(next(iter(keys.values())).section)).split("\n")[0]
    return line.split(";")[0].rstrip(".") + "."


def _section(heading: str, section: Section) -> str:
    """A section of the page."""
    text = section.summary
    if section.base:
        text += f" The keys of {section.base}, and:"
    elif not heading.startswith("`model`") and len(section.architectures) < len(MODELS):
        other = [f"`{name}`" for name in MODELS if name not in section.architectures]
        text += (f" Not for {', '.join(other)}." if len(other) < len(section.architectures)
                 else f" For {', '.join(f'`{name}`' for name in section.architectures)}.")
    head = ["| key | default | meaning |", "|---|---|---|"]
    rows = [_row(name, key) for name, key in section.keys.items()]
    return "\n".join([f"## {heading}", "", text, "", *head, *rows, ""])


def _row(name: str, key: Key) -> str:
    """The line of a key."""
    return (f"| `{name}` | {_cell(_default(key))} | "
            f"{_cell(meaning(key.section, name.split('.')[-1]))} |")


def _default(key: Key) -> str:
    """A default as YAML writes it, and of its type what it does not show."""
    if key.default is dataclasses.MISSING:
        return "required"
    default = f"`{json.dumps(float(key.default) if key.written == 'float' else key.default)}`"
    if key.written in ("str", "int", "float", "bool"):
        return default
    others = [choice.strip("'") for choice in key.written.split(" | ")
              if choice != repr(key.default)]
    if key.default is None:
        return f"{default} or {' or '.join(choice for choice in others if choice != 'null')}"
    if "null" in others:
        return f"{default} or null"
    return ", ".join([default, *others])


def _cell(text: str) -> str:
    """Text that a cell of a table can hold."""
    return text.replace("|", "\\|").replace("<", "&lt;")
