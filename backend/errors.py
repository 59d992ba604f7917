"""Errors that the user of a command can mend."""


class UserError(Exception):
    """One clear line: the file, line or argument, what was expected and what came.

    The command line prints it and exits with status 2; nothing else is printed.
    """


class Terminated(KeyboardInterrupt):
    """SIGTERM came, as Ctrl-C is a KeyboardInterrupt; the command line exits with status 143."""
