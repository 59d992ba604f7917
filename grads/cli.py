"""The command `grads`: check gradients, and write the pages on what was verified."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nmt.console import verbs
from nmt.console.arguments import Parser
from nmt.console.command import run_command
from nmt.console.verbs import Verb

VERBS = (
    Verb("check", "check gradients: of the catalogue, or your own", "grads.checking"),
    Verb("matrix", "check the whole catalogue and write the matrix", "grads.commands"),
    Verb("mutants", "mutation testing of the backward passes", "grads.commands"),
    Verb("walk", "step through a derivation in the terminal", "grads.stepping"),
    Verb("explore", "step through a derivation in the browser", "grads.stepping"),
    Verb("debug-state", "write every tensor of a model on a sentence, to compare with another's",
         "grads.debug_state"),
    Verb("equations", "write the index of the papers' equations", "grads.commands"),
)


def build_parser(arguments: Sequence[str] | None = None) -> Parser:
    """All verbs and their arguments, or of the verb among `arguments` alone."""
    parser = Parser(prog="grads", description="Verification of hand-written gradients.")
    return verbs.build_parser(parser, VERBS, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 1 for a wrong gradient, 2 for an error of the user's."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = build_parser(given)
    run_command("grads", lambda: parser.parse_args(given))
