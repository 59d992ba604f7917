"""A recipe's YAML, merged with its bases, as a tree with the file and line of each value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from backend.errors import UserError
from nmt.files import read_file
from nmt.recipe import DEFAULT_ARCHITECTURE
from nmt.recipe.numbers import misread
from nmt.recipe.renamed import RENAMED, current_name

BASE = "base"
LARGEST = 1 << 20  # bytes of a file
DEEPEST = 20  # levels of mappings and lists
MOST = 10_000  # values


class Entry(NamedTuple):
    """The value of a key, and where it stands."""

    value: Any  # a `Tree` for a mapping
    place: str  # file and line of the key


Tree = dict[str, Entry]


def read_tree(path: str | Path) -> Tree:
    """Read a recipe and its bases.

    `base` names another recipe, relative to the file that names it. Mappings merge by key;
    everything else replaces the base's value. A `model.architecture` that differs from the base's
    drops the base's model section. A section whose keys are all commented out is empty. Raises
    UserError, with file and line, for a file that cannot be read, is not YAML or not a mapping, for
    a repeated key, and for a base that is missing or leads back to itself.
    """
    return _read(Path(path), ())


def plain(value: Any) -> Any:
    """A value without the files and lines of its entries."""
    if not isinstance(value, dict):
        return value
    return {key: plain(entry.value) for key, entry in value.items()}


def architecture_entry(tree: Tree) -> Entry:
    """The entry of the model's architecture; without one, the default with an empty place."""
    model = tree.get("model")
    named = model.value.get("architecture") if model and isinstance(model.value, dict) else None
    return named or Entry(DEFAULT_ARCHITECTURE, "")


def without_model(tree: Tree) -> Tree:
    """A recipe without its model section."""
    return {name: entry for name, entry in tree.items() if name != "model"}


def _read(path: Path, above: tuple[Path, ...]) -> Tree:
    """Read a recipe and merge it with its base. above: the recipes that lead to it."""
    return _based(_parse(path), (*above, path))


def based(tree: Tree) -> Tree:
    """A tree inside a recipe, merged with its own base. Errors as `read_tree`."""
    return _based(dict(tree), ())


def _based(tree: Tree, chain: tuple[Path, ...]) -> Tree:
    """A recipe merged with its base. chain: the recipes that lead to it, and the recipe itself."""
    for old in RENAMED:
        _rename(tree, old)
    named = tree.pop(BASE, None)
    if named is None:
        return tree
    if not (isinstance(named.value, str) and named.value):
        raise UserError(f"{named.place}: {BASE}: expected the name of a recipe's file, "
                        f"got {plain(named.value)!r}".replace("None", "null"))
    base = Path(named.place.rpartition(":")[0]).parent / named.value
    if not os.path.isfile(base):  # False too for a name that is too long
        raise UserError(f"{named.place}: {BASE}: expected a recipe's file, found none at {base}")
    if base.resolve() in [ancestor.resolve() for ancestor in chain]:
        raise UserError(f"{named.place}: {BASE}: expected another recipe, got one that leads back "
                        f"to itself: {' -> '.join(map(str, (*chain, base)))}")
    return _on_base(_read(base, chain), tree)


def _rename(tree: Tree, old: str) -> None:
    """Move the entry of an old key, if there is one, to the key's present name. Raises UserError if
    both names are given."""
    *sections, name = old.split(".")
    inner = _section(tree, sections)
    if inner is None or name not in inner:
        return
    entry = inner.pop(name)
    if not inner and len(sections) == 1:
        del tree[sections[0]]
    new = current_name(old, entry.place)
    *sections, name = new.split(".")
    section, place = tree, entry.place
    for outer in sections:
        if not isinstance(section.setdefault(outer, Entry({}, place)).value, dict):
            section[outer] = Entry({}, place)
        section = section[outer].value
    if name in section:
        raise UserError(f"{place}: {old}: cannot be used with {new}, its new name, got "
                        f"{plain(entry.value)!r}")
    section[name] = entry


def _section(tree: Tree, names: Sequence[str]) -> Tree | None:
    """The mapping at these names in a tree; None if there is none."""
    for name in names:
        value = tree[name].value if name in tree else None
        if not isinstance(value, dict):
            return None
        tree = value
    return tree


def _on_base(base: Tree, overlay: Tree) -> Tree:
    """A recipe's values merged over those of its base."""
    merged = _merged(base, overlay)
    if architecture_entry(merged).value != architecture_entry(base).value:
        merged = _merged(without_model(base), overlay)
    return merged


def _merged(below: Tree, above: Tree) -> Tree:
    """Two trees merged by key; values of `above` that are no mappings replace those of `below`."""
    merged = {**below, **above}
    for name in below.keys() & above.keys():
        lower, upper = below[name].value, above[name].value
        if isinstance(lower, dict) and upper is None:
            merged[name] = below[name]
        elif isinstance(lower, dict) and isinstance(upper, dict):
            merged[name] = Entry(_merged(lower, upper), above[name].place)
    return merged


def _parse(path: Path) -> Tree:
    """The tree of a file, without its base."""
    try:
        loader = _Loader(path, read_file(path, LARGEST, "a recipe"))
        node = loader.get_single_node()
        tree = _value(loader, node, path, "") if node is not None else None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a path with a NUL
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise UserError(f"{path}{line}: expected YAML, got: {problem}") from None
    except RecursionError:  # an alias within what it stands for, or brackets without end
        raise UserError(f"{path}: expected YAML, got: mappings nested too deeply") from None
    if not isinstance(tree, dict):
        actual = "an empty file" if tree is None else type(tree).__name__
        raise UserError(f"{path}: expected a mapping of sections, got {actual}")
    return tree


class _Loader(yaml.SafeLoader):
    """A loader that raises UserError, with the line, for mappings and lists that nest deeper than
    DEEPEST, and for more than MOST values with aliases expanded."""

    def __init__(self, path: Path, raw: bytes) -> None:
        super().__init__(raw)
        self._path, self._depth, self._count = path, 0, 0
        self._sizes: dict[str, int] = {}  # number of values of an anchor

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Make the next node of the events, as PyYAML does, and check the limits."""
        event, before = self.peek_event(), self._count
        alias = isinstance(event, yaml.AliasEvent)
        self._count += self._sizes.get(event.anchor, 1) if alias else 1
        self._depth += isinstance(event, yaml.CollectionStartEvent)
        if self._depth > DEEPEST or self._count > MOST:
            raise UserError(f"{self._path}:{_line(event)}: expected at most {DEEPEST} mappings and "
                            f"lists within each other and {MOST:,} values, aliases written out, "
                            "got more")
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= isinstance(event, yaml.CollectionStartEvent)
        if not alias and event.anchor is not None:
            self._sizes[event.anchor] = self._count - before
        return node


def _line(marked: yaml.Event | yaml.Node) -> int:
    """The line, from 1, where an event or node begins."""
    return marked.start_mark.line + 1 if marked.start_mark else 1


def _value(loader: yaml.SafeLoader, node: yaml.Node, path: Path, prefix: str) -> Any:
    """The value of a node; the entries of a mapping."""
    if not isinstance(node, yaml.MappingNode):
        try:
            value = loader.construct_object(node, deep=True)
            if problem := misread(node):
                raise UserError(f"{path}:{_line(node)}: {prefix.rstrip('.')}: expected {problem}")
            return value
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UserError(f"{path}:{_line(node)}: expected YAML, got {node.value!r}, which is no "
                            f"{node.tag.rpartition(':')[2]}") from error
    tree: Tree = {}
    for key, value in node.value:
        place = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise UserError(f"{place}: expected a name before ':', got a {key.id}")
        name = str(key.value)
        if name in tree:
            first = tree[name].place.rpartition(":")[2]
            raise UserError(f"{place}: key '{prefix}{name}' is already on line {first}")
        tree[name] = Entry(_value(loader, value, path, f"{prefix}{name}."), place)
    return tree
