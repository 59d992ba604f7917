"""Prints a search for `grads walk search`: each step of the beam, and the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len

from nmt.search.recorder import FATES, FINISHED, LAST, SURPASSED, words_of

SHOWN = 5  # words of a hypothesis in a row, the last ones


def as_text(data: dict[str, Any]) -> str:
    """The data of `build_search` as lines of text."""
    return "\n".join([*data["notes"], *_steps(data["searches"]["beam"]),
                      *_found(data["searches"])])


def _steps(search: dict[str, Any]) -> Iterator[str]:
    """A table for each step."""
    for number, step in enumerate(search["steps"]):
        yield f"\nstep {number + 1} of {len(search['steps'])}, beam {search['beam']}, log p in nats"
        words = [_tail(words_of(search["steps"], (number, at)), candidate)
                 for at, candidate in enumerate(step["candidates"])]
        margin = max(map(cell_len, words))
        for rank, (text, candidate) in enumerate(zip(words, step["candidates"], strict=True), 1):
            ended = candidate["fate"] in (FINISHED, SURPASSED, LAST)
            score = f", score {candidate['score']:.4f}" if ended else ""
            space = " " * (margin - cell_len(text))
            yield (f"{rank:3} {text}{space} {candidate['word_log_p']:9.4f} "
                   f"{candidate['log_p']:9.4f}  {FATES[candidate['fate']]}{score}")


def _tail(words: list[str], candidate: dict[str, Any]) -> str:
    """The last words of a hypothesis."""
    words = [*words, candidate["word"]] if candidate["end"] else words
    return " ".join(["..."] * (len(words) > SHOWN) + words[-SHOWN:])


def _found(searches: dict[str, Any]) -> Iterator[str]:
    """The results of each search."""
    yield ""
    for name, search in searches.items():
        for hypothesis in search["found"]:
            cut = "" if hypothesis["finished"] else " (cut at the limit on length)"
            yield (f"{name} {search['beam']}: {hypothesis['text']}{cut}, "
                   f"log p {hypothesis['log_p']:.4f}, score {hypothesis['score']:.4f}")
