"""Errors that the user of a command can correct."""


class UserError(Exception):
    """One clear line: the file, line or argument, what was expected and what came.

    The command line prints it and exits with status 2; nothing else is printed.
    """


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, as KeyboardInterrupt is on Ctrl-C; the command line exits with status
    143."""
