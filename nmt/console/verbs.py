"""The verbs of a program: a table, from which its parser is built."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from nmt.console.arguments import Parser


class Verb(NamedTuple):
    """A verb, such as `train`; a verb of a group, such as `lm train`; or a group, such as `lm`.

    A verb's module has `add_train(parser)`, which adds the verb's arguments, and
    `run_train(options)`, which does the work and returns an exit status or None. Hyphens become
    underscores there. The second paragraph of its docstring, if there is one, is the verb's
    description in its help. A group has no module.
    """

    name: str
    help: str
    module: str = ""
    overrides: bool = False  # whether the verb takes values of a recipe, `--section.key VALUE`
    heading: str = ""  # of this verb and those after it, in the program's help


def build_parser(
    parser: Parser, verbs: Sequence[Verb], arguments: Sequence[str] | None = None
) -> Parser:
    """Add verbs to the parser of a program; groups come before their verbs in the table.

    arguments: the command line. Only the module of its verb is imported, since importing all
    modules of `nmt` takes two seconds. None: all modules are imported.
    """
    parser.add_version()
    listed = any(verb.heading for verb in verbs)
    groups = {"": parser.add_subparsers(dest="command", metavar="command", required=True,
                                        parser_class=Parser,
                                        help=argparse.SUPPRESS if listed else None)}
    if listed:
        parser.show_only(listing(verbs))
    first_words = {verb.name.split()[0] for verb in verbs}
    meant = next((word for word in arguments or () if word in first_words), None)
    for verb in verbs:
        group, _, word = verb.name.rpartition(" ")
        hidden = listed and not group  # argparse lists a verb that has a help
        added = (groups[group].add_parser(word) if hidden
                 else groups[group].add_parser(word, help=verb.help))
        if not verb.module:
            groups[verb.name] = added.add_subparsers(dest=f"{word}_command", required=True,
                                                     parser_class=Parser)
        elif arguments is None or verb.name.split()[0] == meant:
            module, name = import_module(verb.module), word.replace("-", "_")
            run = getattr(module, f"run_{name}")
            added.description = "".join((run.__doc__ or "").split("\n\n")[1:2])
            getattr(module, f"add_{name}")(added)
            added.set_defaults(run=run, takes_overrides=verb.overrides)
    return parser


def listing(verbs: Sequence[Verb]) -> str:
    """A line for each verb under its heading. The verbs of groups are left out."""
    lines = []
    for verb in verbs:
        if verb.heading:
            lines.append(f"{verb.heading}:")
        if " " not in verb.name:
            lines.append(f"  {verb.name:16}{verb.help}")
    return "\n".join(lines)
