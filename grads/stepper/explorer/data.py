"""Makes the single object that a page of the explorer consists of. The page reads it as JSON."""

from __future__ import annotations

import gc
import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backend.errors import UserError
from grads.stepper.explorer.cited import all_said
from grads.stepper.explorer.drawings import DRAWINGS, standalone
from grads.stepper.explorer.examples import RunExample, open_example, page_name
from grads.stepper.explorer.flow import flow_json
from grads.stepper.explorer.heads import heads_json
from grads.stepper.explorer.inside import inside_json
from grads.stepper.explorer.live import live_json
from grads.stepper.explorer.logits import logits_json
from grads.stepper.explorer.network import network
from grads.stepper.explorer.own import containing, titled
from grads.stepper.explorer.page import DERIVATION
from grads.stepper.explorer.settings import Settings
from grads.stepper.explorer.steps import Steps
from grads.stepper.explorer.sums import sums_json
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table, flat, number
from grads.stepper.explorer.variants import variants_json
from grads.stepper.explorer.verifications import H, X, verifications_json
from grads.stepper.tracing.derivations import Run
from nmt.files import write_text
from nmt.pages.page import LIMIT, page_of, save_page, size_of

PICTURE = ".svg"
WEIGHTS = re.compile(r"(?:a|alpha)\[(\d+)\]")  # a_t, by their names in the derivations
DEPTH = 2  # calls around a decoder's loop
# What is left out of a page that would become too large, in this order, and what is then said
SPARED: tuple[tuple[str, Any, str], ...] = (
    ("live", None, "No number can be changed on this page: it would become too large."),
    ("variants", [], "No bugs can be injected on this page: it would become too large."))
WORDS = 100  # of a vocabulary that is shown
ROUGH = 4  # significant digits of a weight of attention that no tensor shows


def build(
    name: str, *, sentence: str | None = None, target: str | None = None,
    hidden: int | None = None, embedding: int | None = None, layers: int | None = None,
    score: str | None = None, window: str | None = None, feeding: bool | None = None,
    seed: int | None = None, model: str | Path | None = None, checkpoint: str | None = None,
) -> dict[str, Any]:
    """Forward and backward of a derivation, every number and every verification, ready for JSON.

    Arguments: name, one of `grads.stepper.tracing.derivations.DERIVATIONS`, or FILE.py:NAME, a
    user's own NAME_forward and NAME_backward, or NAME and NAME_gradient, on NAME_inputs(rng);
    sentence and target, words between spaces (a translation's sentence may also be "source |||
    target"); sizes, score and window of attention, feeding (False: without input feeding), and
    seed, of random parameters; model, a run directory whose weights, vocabularies and tokeniser are
    taken instead; checkpoint, best or last, of that directory (None: best). None everywhere: a
    small example.
    Raises `UserError` as `grads.stepper.explorer.examples.open_example`.
    """
    with containing(name), collector_paused():
        return of_example(open_example(name, Settings(
            sentence, target, hidden, embedding, layers, score, window, feeding, seed, model,
            checkpoint)))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Context without Python's cyclic garbage collector, which takes a seventh of a page's time
    for nothing: traces have no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def explore(name: str, output: str | Path | None = None, **settings: Any) -> Path:
    """Write the page of `build(name, **settings)` and return its path, NAME.html if path is None.

    If the path ends in .svg, the drawings of the functions are written instead, for slides: the
    first one there, and the others beside it, with their names, as NAME-attend.svg. Raises
    `UserError` as `build` does, for a path that cannot be written, and for a derivation without a
    drawing.
    """
    return write(build(name, **settings), page_name(name) if output is None else output)


def write(data: dict[str, Any], output: str | Path) -> Path:
    """Write a page, or its drawings, from the data of `build`, and return the path."""
    path = Path(output)
    if path.suffix == PICTURE:
        return write_drawings(data, path)
    page = page_of(data, DERIVATION)
    for name, nothing, note in SPARED:
        if data[name] and size_of(page) >= LIMIT:
            data = data | {name: nothing, "notes": [*data["notes"], note]}
            page = page_of(data, DERIVATION)
    save_page(page, path, DERIVATION)
    return path


def write_drawings(data: dict[str, Any], path: Path) -> Path:
    """Write each drawing of a page's data as a file of its own; returns the first one's path."""
    names = list(data["inside"]["drawings"])
    if not names:
        raise UserError(f"{path}: {data['name']} has no drawing: expected one that runs "
                        f"{', '.join(sorted({name.split()[0] for name in DRAWINGS}))}")
    for name in names:
        further = f"-{name.replace(' ', '-')}" if name != names[0] else ""
        write_text(path.with_stem(path.stem + further), standalone(DRAWINGS[name]))
    return path


def of_example(example: RunExample) -> dict[str, Any]:
    """The JSON object of an example; each key is documented where it is made."""
    run = example.run
    verifications = example.verifications()
    shown = example.shown.with_first_wrong(verifications)
    verifications = [verification for verification in verifications
                     if verification.step in shown.steps[BACKWARD]]
    table = Table(run, shown.steps)
    steps = Steps(run, table, verifications)
    verified = verifications_json(run, table, steps, verifications)
    inside = inside_json(table, steps)
    return {
        "name": titled(run.derivation.name), "title": run.title,
        "settings": example.described(), "command": example.command(),
        "verdict": example.verdict, "notes": [*filter(None, [shown.note]), *example.said],
        "sources": steps.sources, "steps": steps.entries, "typeset": steps.typeset,
        "cited": all_said(step["cited"] for step in steps.entries),
        "verifications": verified, "curve_steps": flat(H), "line_offsets": flat(X),
        "sums": sums_json(table), "variants": variants_json(example, table, steps, verifications),
        "flow": flow_json() if run.derivation.recurrent else None, "network": network(run),
        "vocabularies": vocabularies(run), "attention": weights_of_attention(table, steps),
        "heads": heads_json(table, steps), "logits": logits_json(table, steps.numbers),
        "inside": inside,
        "loss": number(run.loss(run.forward.result)), "loss_said": run.loss_said,
        "live": None if run.derivation.is_users else live_json(example, table),
        "tensors": table.entries,
    }


def vocabularies(run: Run) -> dict[str, dict[str, Any]]:
    """The words that rows of an embedding and of a prediction belong to: the first ones, and how
    many there are; input of the source, or of a language model, output of the target."""
    known = list(run.example.words.values())
    ends = {"input": known[0], "output": known[-1]} if known else {}
    return {name: {"words": list(words[:WORDS]), "size": len(words)}
            for name, words in ends.items()}


def weights_of_attention(table: Table, steps: Steps) -> list[dict[str, Any]]:
    """The weights over the source at each time of the decoder: their tensor, the step that knows
    them, or the next one shown, and all numbers where the tensor holds the first; empty without
    attention."""
    trace = table.run.forward
    weights: list[dict[str, Any]] = []
    shown = sorted(table.shown[FORWARD])
    for step in trace.steps:
        for i, target in enumerate(step.targets):
            named = WEIGHTS.fullmatch(target.name)
            if named and step.kind == "assign" and step.depth <= DEPTH:
                tensor = table.find(FORWARD, (step.number, i))
                where, origin = table.origins[table.root(tensor)]
                after = shown[min(bisect_left(shown, step.number), len(shown) - 1)]
                weights.append({"t": int(named[1]), "tensor": tensor,
                              "step": steps.numbers.get((where, origin[0]),
                                                        steps.numbers[FORWARD, after])})
                if target.sliced:
                    weights[-1]["weights"] = flat(trace.alive[step.number, i], ROUGH)
    return weights
