"""`grads walk`: steps through a derivation in the terminal, line by line, forward and backward."""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.text import Text

from grads.progress import limited
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.own import Alone, containing, is_own, trace_alone
from grads.stepper.explorer.settings import Settings
from grads.stepper.explorer.show import Shown
from nmt.console import progress
from nmt.console.terminal import Console

try:
    import termios
    import tty
except ImportError:  # Windows: every step is printed
    pass

WIDE = 200  # columns of an output that is not a terminal
SCROLL = 5  # lines
AROUND = 2  # lines before and after a step's line when every step is printed
HELP = "← → step  ↑ ↓ scroll  n p time  e equation  r backward  N enter: go  q leave"
ESCAPE = 0.05  # longest time in seconds between the characters of one key
STATUS = {"right": 0, "wrong": 1, "undecided": 3, "nothing": 3}  # exit statuses
SUMMARY = {"right": "green", "wrong": "bold red", "undecided": "yellow", "nothing": "bold red"}
SEQUENCE = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]")
# The characters that a terminal sends for a key, and the action of the key
KEYS = {"\x1b[C": "on", "\x1bOC": "on", " ": "on", "\x1b[B": "down", "\x1bOB": "down",
        "\x1b[6~": "down", "\x1b[A": "up", "\x1bOA": "up", "\x1b[5~": "up",
        "\x1b[D": "back", "\x1bOD": "back", "b": "back", "\x7f": "back",
        "n": "next time", "p": "time before", "r": "backward", "e": "equation",
        "g": "first", "\x1b[H": "first", "G": "last", "\x1b[F": "last",
        "q": "leave", "\x03": "leave", "\x04": "leave", "\r": "enter", "\n": "enter"}


def walk(
    name: str, *, sentence: str | None = None, target: str | None = None,
    hidden: int | None = None, embedding: int | None = None, layers: int | None = None,
    score: str | None = None, window: str | None = None, feeding: bool | None = None,
    seed: int | None = None, model: str | Path | None = None, checkpoint: str | None = None,
    all: bool = False, time_limit: float | None = None,
) -> int:
    """Walk through the steps of a derivation, or of a user's own function FILE.py:NAME.

    Arguments: name to checkpoint, as in `grads.stepper.explorer.build`; all, whether to print every
    step instead of waiting for keys (always so if input or output is not a terminal); time_limit,
    in seconds, for the work before the steps are shown. Returns the exit status of `grads check`: 0
    right, 1 wrong, 3 undecided or nothing verified. Raises `UserError` as `build` does, and for a
    file without such a function; TimeUp (`grads.check.watch`) when the time is up.
    """
    settings = Settings(sentence, target, hidden, embedding, layers, score, window, feeding, seed,
                        model, checkpoint)
    with progress.busy(f"verifying {name}"), limited(time_limit):
        shown, notes = open_shown(name, settings)
    if all or not has_keys():
        print_all(shown, notes)
    else:
        by_keys(shown)
    if is_own(name):
        console().print(*shown.summary(), style=SUMMARY[shown.verdict], markup=False,
                        soft_wrap=True)
    return STATUS[shown.verdict]


def has_keys() -> bool:
    """Whether single keys can be read and a screen can be drawn."""
    return "termios" in globals() and sys.stdin.isatty() and sys.stdout.isatty()


def open_shown(name: str, settings: Settings) -> tuple[Shown, list[str]]:
    """The steps for a name, and the notes to print before them."""
    with containing(name):
        try:
            run = (example := open_example(name, settings)).run
        except Alone as error:
            traces = {"forward": trace_alone(name, settings)}
            return Shown(traces, verdict="nothing"), [name, f"NOTHING WAS VERIFIED. {error}"]
        traces = {"forward": run.forward, "backward": run.backward}
        own = example.own_verification
        return (Shown(traces, example.verifications(), run, example.verdict,
                      own.diagnosed if own else None), [run.title, *example.said])


def print_all(shown: Shown, notes: list[str]) -> None:
    """Print every step. The output has no colours in a pipe."""
    screen = console()
    for note in notes:
        screen.print(note, markup=False)
    told: set[str] = set()
    for number in range(len(shown)):
        screen.print()
        screen.print(shown.page(number, AROUND, told), end="")


def console() -> Console:
    """The terminal. A pipe gets wide lines without colours."""
    terminal = Console(highlight=False, soft_wrap=True)
    return terminal if terminal.is_terminal else Console(highlight=False, width=WIDE)


# --- by keys ------------------------------------------------------------------------------------


def by_keys(shown: Shown) -> None:
    """Show one step at a time on the screen, until the user leaves."""
    screen, here, typed, top = Console(highlight=False), shown.begin(), "", 0
    descriptor = sys.stdin.fileno()
    with raw(descriptor), screen.screen(hide_cursor=False):
        draw(screen, shown, here, typed, top)
        for key in keys(descriptor):
            if key == "leave":
                return
            if key in ("up", "down"):
                top = max(top + (SCROLL if key == "down" else -SCROLL), 0)
            else:
                there, typed = moved(jumped(shown, here, key), typed, key, len(shown))
                top, here = top if there == here else 0, there
            top = draw(screen, shown, here, typed, top)


def jumped(shown: Shown, here: int, key: str) -> int:
    """The step to show after a key that jumps; the same step after any other key."""
    if key in ("next time", "time before"):
        return shown.next_time(here, 1 if key == "next time" else -1)
    if key == "equation":
        return shown.next_equation(here)
    return shown.backward() if key == "backward" else here


def moved(here: int, typed: str, key: str, count: int) -> tuple[int, str]:
    """The step to show after a key (counted from 0), and the digits typed so far."""
    if key.isdigit():
        return here, typed + key
    if key == "enter" and typed:
        return min(max(int(typed), 1), count) - 1, ""
    to = {"on": here + 1, "enter": here + 1, "back": here - 1, "first": 0, "last": count - 1}
    return min(max(to.get(key, here), 0), count - 1), ""


def draw(screen: Console, shown: Shown, here: int, typed: str, top: int = 0) -> int:
    """Draw a step on an empty screen, with as many lines around it as fit.

    If the step does not fit, its lines from `top` on are drawn. Returns `top`, reduced so that the
    last line stays at the bottom of the screen.
    """
    space = max(screen.height - 2, 5)
    page = next((page for context in range(30, -1, -1)
                 if len((page := shown.page(here, context)).split()) <= space), None)
    lines = (shown.page(here, 0) if page is None else page).split()
    top = min(top, max(len(lines) - space, 0))
    left = lines[top:]
    screen.clear()
    for line in left if len(left) <= space else [*left[: space - 1], Text("... (down)")]:
        screen.print(line, no_wrap=True, overflow="ellipsis")
    screen.print(f"go to step {typed}" if typed else HELP, style="dim", end="", no_wrap=True,
                 overflow="ellipsis")
    return top


@contextmanager
def raw(descriptor: int) -> Iterator[None]:
    """Context: the terminal passes on every key at once and without echo."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys(descriptor: int) -> Iterator[str]:
    """The actions of the keys pressed, until the input ends."""
    waiting = ""
    while True:
        typed = os.read(descriptor, 1024)
        if not typed:
            return
        waiting += typed.decode("utf-8", "replace")
        while waiting:
            key, rest = first_key(waiting)
            if rest == "" and waiting.startswith("\x1b") and key is None and select.select(
                    [descriptor], [], [], ESCAPE)[0]:
                break  # the rest of what the key sends is on its way
            waiting = rest
            if key is not None:
                yield key


def first_key(text: str) -> tuple[str | None, str]:
    """The action of the first key in a text, and the rest of the text. The action is None if the
    key has none."""
    for sent in sorted(KEYS, key=len, reverse=True):
        if text.startswith(sent):
            return KEYS[sent], text[len(sent):]
    if text[0] == "\x1b":  # another key's sequence
        sequence = SEQUENCE.match(text)
        return None, text[sequence.end():] if sequence else ""
    return (text[0] if text[0] in "0123456789" else None), text[1:]
