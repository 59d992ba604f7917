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

from nmt.models.registry import MODELS
from nmt.recipe import DEFAULT_ARCHITECTURE
from nmt.recipe.keys import ARCHITECTURE, Key, keys_of
from nmt.recipe.tasks import VOCABULARY_CHOICES

OPENING = """# The keys of a recipe

Made by `nmt recipe --doc` from the code. A default is that of a recipe which leaves the key out.

A recipe is a YAML file of sections, such as [`demo.yaml`](../nmt/recipes/demo.yaml). On the command
line a value is given as `--section.key VALUE`, which beats the file. `nmt recipe FILE` prints a
recipe as it is used, every default filled in; training writes the same into its run directory.

**A recipe on another.** `base: other.yaml`, relative to the file that says so, takes over what the
other recipe says, and its base in turn: mappings merge by key, all else replaces. Where
`model.architecture` differs from the base's, the base's model section is dropped. A table of a
paper is one base and a row each: see [`thesis/`](../nmt/recipes/thesis).

**Keys without use**, such as `data.test_size` of a corpus read from files, are an error, unless a
base gives them and the recipe on it has what leaves them without use.

**Several tasks.** A recipe may name others in place of the sections: `tasks` (by name; the first is
the reference), `ratios` (updates for one of the reference, default 1), `share` (`[encoder]`,
`[decoder]`, both, or for each part the tasks that share one) and `vocabularies` (of a shared side:
JOINED). See [multi-task.md](multi-task.md).

**Architectures.** `model.architecture` (one of ARCHITECTURES; default
`DEFAULT`) says which keys the model section has, and whether the recipe has `data`, `search` and
`evaluate` (a translator's) or `text` (a language model's).
"""
FIELD = re.compile(r"    (\w+): .*?  # (.+)")  # a field of a dataclass on one line, and its comment


class Section(NamedTuple):
    """A section with its keys, and the architectures whose recipes have it."""

    summary: str
    keys: Mapping[str, Key]
    architectures: list[str]


def page() -> str:
    """The whole page."""
    names = ", ".join(f"`{name}`" for name in MODELS)
    opening = OPENING.replace("ARCHITECTURES", names).replace("DEFAULT", DEFAULT_ARCHITECTURE)
    opening = opening.replace("JOINED", " or ".join(f"`{one}`" for one in VOCABULARY_CHOICES))
    sections = sorted(_sections(), key=lambda one: one[0].startswith("`model`"))
    return "\n".join([opening, *(_section(name, one) for name, one in sections)])


def keys_in_short() -> str:
    """The names of all keys of a translator, a paragraph for each section, for `--help`, as wide
    as the terminal, 100 columns at most."""
    sections: dict[str, dict[str, list[str]]] = {}  # section -> name -> names below it
    for key in keys_of(DEFAULT_ARCHITECTURE):
        section, name, *below = key.split(".")
        sections.setdefault(section, {}).setdefault(name, []).extend(below)
    width = min(100, shutil.get_terminal_size().columns) - 1
    lines = [textwrap.fill(f"--{section}. {', '.join(_braced(*one) for one in names.items())}",
                           width, break_on_hyphens=False, initial_indent="  ",
                           subsequent_indent="    ")
             for section, names in sections.items()]
    return "\n".join([f"keys of a recipe (model.architecture {DEFAULT_ARCHITECTURE}), such as "
                      "--train.epochs 5; null means none;",
                      "what each means, and those of other architectures: nmt recipe --doc",
                      *lines])


def _braced(name: str, below: Sequence[str]) -> str:
    """A name, and in braces those below it: `subwords.{merges, joint}`."""
    return f"{name}.{{{', '.join(below)}}}" if below else name


def meaning(section: type, name: str) -> str:
    """The comment behind a field, also one that is inherited; "" if there is none."""
    for one in section.__mro__:
        if name in inspect.get_annotations(one):
            found = dict(FIELD.findall(inspect.getsource(one)))
            return found.get(name, "")
    return ""


def _sections() -> list[tuple[str, Section]]:
    """The sections of all architectures by heading, each once."""
    found: dict[tuple[str, str], Section] = {}
    for architecture in MODELS:
        keys = {name: key for name, key in keys_of(architecture).items() if name != ARCHITECTURE}
        for section in dict.fromkeys(name.split(".")[0] for name in keys):
            own = {name: key for name, key in keys.items() if name.split(".")[0] == section}
            heading = f"`{section}`" + f" of `{architecture}`" * (section == "model")
            known = found.setdefault((heading, repr(own)), Section(_summary(own), own, []))
            known.architectures.append(architecture)
    return [(heading, section) for (heading, _), section in found.items()]


def _summary(keys: Mapping[str, Key]) -> str:
    """The first line of a section's docstring, without the part on errors."""
    line = str(inspect.getdoc(next(iter(keys.values())).section)).split("\n")[0]
    return line.split(";")[0].rstrip(".") + "."


def _section(heading: str, section: Section) -> str:
    """A section of the page."""
    used = ", ".join(f"`{name}`" for name in section.architectures)
    said = section.summary if heading.startswith("`model`") else f"{section.summary} In: {used}."
    rows = [f"| `{name}` | {_cell(key.written)} | {_default(key)} | "
            f"{_cell(meaning(key.section, name.split('.')[-1]))} |"
            for name, key in section.keys.items()]
    head = ["| key | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([f"## {heading}", "", said, "", *head, *rows, ""])


def _default(key: Key) -> str:
    """A default as YAML writes it."""
    return "required" if key.default is dataclasses.MISSING else f"`{json.dumps(key.default)}`"


def _cell(text: str) -> str:
    """Text that a cell of a table can hold."""
    return text.replace("|", "\\|").replace("<", "&lt;")
