"""The command `grads`: check gradients, and write the pages on what was verified."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nmt.console import verbs
from nmt.console.arguments import Parser
from nmt.console.command import command
from nmt.console.verbs import Verb

VERBS = (
    Verb("check", "check gradients: of the catalogue, or your own", "grads.checking"),
    Verb("matrix", "check the whole catalogue and write the matrix", "grads.commands"),
    Verb("mutants", "test the checks by mutants of backward passes", "grads.commands"),
    Verb("walk", "step through a derivation in the terminal", "grads.stepping"),
    Verb("explore", "step through a derivation in the browser", "grads.stepping"),
    Verb("debug-state", "write every tensor of a model on a sentence, to compare with another's",
         "grads.debug_state"),
    Verb("equations", "write the index of the papers' equations", "grads.commands"),
)


def build_parser(arguments: Sequence[str] | None = None) -> Parser:
    """The parser of all verbs, or only of the verb in `arguments`."""
    parser = Parser(prog="grads", description="Verify hand-written gradients.")
    return verbs.build_parser(parser, VERBS, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exit status 1: a wrong gradient; 2: an error of the user's."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = build_parser(words)
    with command("grads", lambda: parser.parse_args(words)) as options:
        status = options.run(options)
    if status:
        sys.exit(status)
