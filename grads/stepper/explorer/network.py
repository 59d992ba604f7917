"""The network unrolled in time and depth: its columns, and the cell in which each line works."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from grads.derivations.examples import END
from grads.derivations.model import Model
from grads.derivations.units import UNITS
from grads.stepper.trace import Step, Trace
from grads.stepper.tracing.derivations import Run

TIME = {"t": "decoder", "i": "decoder", "s": "encoder", "j": "encoder", "k": "encoder"}  # loops
LAYER = "l"
UPDATE = "u"  # the loop over updates of several tasks: the network of the first is drawn
COUNTING = ("nmt", "multitask")  # as Algorithm 3 they count time on from the source to the target

# The part of a column to which a function belongs, with its backward, and to which a variable of
# the functions with the loops belongs. A function whose name begins with a unit's belongs to the
# unit.
PARTS = {
    "embed": ("embed", "factored_embed"),
    "unit": ("deep_step",),
    "attention": ("attend", "attend_both", "context", "the_last"),
    "output": ("predict", "deep", "deep_output", "fused_output",
               "predictions", "seed", "spell"),
}
VARIABLES = {
    "embed": ("v", "fed", "z", "dv", "dx", "dz", "dW_e"),
    "unit": ("h", "c", "g", "k", "dh", "dc", "dg", "dk", "dT", "db",
             "dW", "s", "ds", "right", "left", "right_c", "left_c", "dright", "dleft"),
    "attention": ("h_tilde", "a", "alpha", "dW_c", "dh_bar", "d_fed", "d_source", "dw"),
    "output": ("p", "l", "above", "d_above", "dW_hy", "db_hy", "dh_tilde"),
}
PART_OF_FUNCTION = {name: place for place, names in PARTS.items() for name in names}
PART_OF_VARIABLE = {name: place for place, names in VARIABLES.items() for name in names}
CALLED = re.compile(r"(\w+)\(")


def network(run: Run) -> dict[str, Any]:
    """The unrolled network for the page.

    It has the columns with their words from left to right, the number of layers, and the entries of
    `kind`. A single step has no columns. A network that reads all words at once is not drawn.
    """
    words, arguments = run.example.words, run.example.arguments
    name = run.derivation.name
    if "W_e" in words:
        columns = decoder_columns(arguments[1], arguments[2], words["W_e"])
    elif words and ("second_encoder.W_e" in words or "encoder.W_e" not in words):
        y = arguments[-1]  # the decoder alone: two encoders do not stand in a row
        columns = decoder_columns([END, *y], [*y, END], words["decoder.W_e"])
    elif words:
        x, y = map(word_ids, arguments[1:3])
        shift = len(x) if name in COUNTING else 0
        columns = [column("encoder", s, word, words["encoder.W_e"])
                   for s, word in enumerate(x, start=1)]
        columns += decoder_columns([END, *y], [*y, END], words["decoder.W_e"], shift)
    else:
        columns = []
    drawn = bool(columns) and run.derivation.recurrent
    return {"columns": columns, "drawn": drawn, "layers": depth(run), **kind(run)}


def word_ids(ids: Sequence[Any]) -> list[int]:
    """The ids of a sentence's words. A word may come with the ids of its factors, which are left
    out."""
    return [word[0] if isinstance(word, tuple) else word for word in ids]


def kind(run: Run) -> dict[str, bool]:
    """Properties of the network.

    Whether there is attention; whether the attentional vector is fed to the next step; whether
    attention comes before the unit; whether the encoder reads in both directions; and whether
    attention weights are in the written order although the encoder reads the last word first.
    """
    named = run.example.named
    model: Model | None = named.get("model")
    search = run.derivation.name == "rnnsearch"
    attentive = run.derivation.attentive and run.derivation.recurrent
    variant = named.get("variant") if model is None else model.variant
    return {
        "attention": attentive if model is None else model.decoder != "plain",
        "fed": run.fed if model is None else is_fed(run.example.arguments[0]),
        "search": search if model is None else model.decoder in ("context", "fused"),
        "both_ends": search if model is None else model.encoder == "both ends",
        "mirrored": bool(variant and variant.reverse),
    }


def is_fed(parameters: Mapping[str, Any]) -> bool:
    """Whether a decoder's first layer reads more than an embedding and its previous state."""
    if "decoder.0.W" not in parameters or "output.W_hy" not in parameters:
        return False
    E, H = parameters["decoder.W_e"].shape[1], parameters["output.W_hy"].shape[1]
    return bool(parameters["decoder.0.W"].shape[1] > E + H)


def depth(run: Run) -> int:
    """The number of layers of units in a column."""
    names = run.example.arguments[0] if run.example.words else ()
    return max(1, sum(key.startswith(("decoder.", "rnn.")) and key.endswith(".W")
                      for key in names))


def decoder_columns(
    x: Sequence[int], y: Sequence[int], words: Sequence[str], shift: int = 0
) -> list[dict[str, Any]]:
    """One column for each word that is read, with the word that it should predict."""
    return [column("decoder", t + shift, word, words) | {"next": words[following]}
            for t, (word, following) in enumerate(zip(x, y, strict=True), start=1)]


def column(side: str, t: int, word: int, words: Sequence[str]) -> dict[str, Any]:
    """A column of the unrolled network."""
    return {"side": side, "t": t, "word": words[word]}


def cell(step: Step, trace: Trace, run: Run) -> dict[str, Any] | None:
    """The side, time, layer and part of the network in which a step works; None if it works in
    none."""
    update, *inner = step.loops or [("", 0)]
    time = (inner or [("", 0)])[0] if update == (UPDATE, 1) else update
    if not run.example.words or not run.derivation.recurrent or time[0] not in TIME:
        return None
    if "second_encoder.W_e" in run.example.words and TIME[time[0]] == "encoder":
        return None
    place = part_of_step(step, trace)
    layer = next((value for name, value in step.loops if name == LAYER and place == "unit"), None)
    if place == "unit" and layer is None and depth(run) == 1:
        layer = 1
    side = TIME[time[0]]
    if run.derivation.name in COUNTING and time[1] <= len(run.example.arguments[1]):
        side = "encoder"
    return {"side": side, "t": time[1], "layer": layer, "part": place}


def part_of_step(step: Step, trace: Trace) -> str | None:
    """The part of a column that a step works in.

    It is given by the outermost function around the step that belongs to a part, by the function
    that the step calls, or by the variable that it assigns.
    """
    frame: int | None = step.frame
    around = []
    while frame is not None:
        call = trace.calls[frame]
        around.append(part_of_function(call.function))
        frame = call.caller
    outermost = next((name for name in reversed(around) if name), None)
    if outermost:
        return outermost
    named = [target.name.split("[")[0] for target in step.targets]
    parts = [part_of_function(name) for name in CALLED.findall(step.text)]
    parts += [PART_OF_VARIABLE.get(name) for name in named]
    return next((name for name in parts if name), None)


def part_of_function(name: str) -> str | None:
    """The part of a column that a function or its backward belongs to."""
    forward = name.removesuffix("_grad")
    unit = "unit" if forward.partition("_")[0] in UNITS else None
    return PART_OF_FUNCTION.get(forward, unit)
