"""The catalogue's whole models: some at several shapes, and every configuration at one.

`ENTRIES` is what a test run checks thoroughly. `CONFIGURATIONS` is the product of all choices that
a configuration has, without those that it refuses. A clipping limit is among them that never acts:
it takes gradients through the lines that clip, and element-wise clipping that acts is no gradient
(section 2.2.2); literal loops in the tests stand for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attention.look import Seen
from attention.scores import PRODUCTS
from attention.way import WINDOWS
from backend import to_host
from grads.case import (
    USUAL,
    WORDS,
    Case,
    E,
    Entry,
    H,
    Inputs,
    Shape,
    V,
    draw,
    draw_parameters,
    frozen,
    scaled,
    unused_rows,
)
from grads.catalogue.labels import label, parameter_labels
from grads.catalogue.models import BOTH_ENDS, NO_LOOK, config_labels, configure
from grads.catalogue.ways import drawn_clear
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from lstm.stack import UNITS
from nmt.models.translator import CHOICES as SCORES
from nmt.models.translator import ModelConfig
from nmt.models.translator import Translator
from nmt.text.batches import Batch, make_batch

Rng = np.random.Generator
MASKS = 7  # seed of the dropout masks, so that every run of a case draws the same ones
REVERSE = True  # sources are reversed, so that positions count from the other end
SCORE_WEIGHTS = ("W_a", "U_a", "v_a")
NEVER = 1e6  # a clipping limit that no gradient here reaches


# --- the models ---------------------------------------------------------------------------------


def language_model(rng: Rng, shape: Shape, **options: Any) -> Case:
    """A whole language model; its states come from the piece before, without a gradient."""
    config = LanguageModelConfig(**{"hidden_size": H, "embedding_size": E} | options)
    model, T, B = LanguageModel(config, V), shape.steps, shape.batch
    words, targets = (rng.integers(*WORDS, size=(T, B)) for _ in range(2))
    states = [tuple(draw(rng, B, config.hidden_size) for _ in range(UNITS[config.unit].states))
              for _ in range(config.layers)]

    def run(a: Inputs) -> Any:
        before = [tuple(frozen(s, a["W_e"]) for s in state) for state in states]
        loss, cache = model.loss(a, words, targets, before, mask_rng(config))
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return scaled(model.backward(cache), d["loss"])

    inputs = draw_parameters(rng, model.weights())
    masks, out_mask = model._masks(inputs, T, B, mask_rng(config))
    return Case(
        inputs, run, pull, {"W_e": unused_rows(words, config.embedding_size)},
        labels={**parameter_labels(inputs, config.unit), "loss": label("")},
        facts={"config": config, "vocabulary": V, "ids": words, "targets": targets,
               "states": states, "masks": [host(mask) for mask in masks],
               "out_mask": host(out_mask)},
    )


def translator(rng: Rng, shape: Shape, **options: Any) -> Case:
    """A whole translator."""
    config, batch = configure(**options), draw_batch(rng, shape)
    model = Translator(config, V, V, REVERSE)

    def seen(a: Inputs) -> list[Seen]:
        found = model.loss(a, batch, mask_rng(config))[1].decoder.seen
        return found if isinstance(found, list) else [found]

    inputs = draw_parameters(rng, model.weights())
    if config.attention == "local-p":
        inputs = drawn_clear(lambda: draw_parameters(rng, model.weights()), seen,
                             shape.host_lengths)
    real = np.arange(len(batch.target_in))[:, None] < batch.target.lengths
    width = config.embedding_size
    zeros = {"encoder.W_e": unused_rows(batch.sources[0].ids[~shape.dead], width),
             "decoder.W_e": unused_rows(batch.target_in[real], width)}
    zeros |= score_zeros(inputs, shape, config)

    def run(a: Inputs) -> Any:
        loss, cache = model.loss(a, batch, mask_rng(config))
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return scaled(model.backward(cache), d["loss"])

    encoder, decoder = model._masks(batch, mask_rng(config), inputs)
    return Case(
        inputs, run, pull, zeros, labels={**config_labels(inputs, config), "loss": label("")},
        facts={
            "config": config, "vocabulary": V, "reverse": REVERSE, "batch": batch,
            "source_ids": batch.sources[0].ids, "lengths": shape.host_lengths, "dead": shape.dead,
            "target_in": batch.target_in, "target_out": batch.target_out,
            "target_lengths": batch.target.lengths,
            "target_dead": ~real, "encoder_masks": [host(mask) for mask in encoder],
            "decoder_masks": [host(mask) for mask in decoder.layers],
            "joined_mask": host(decoder.joined),
        },
    )


def score_zeros(inputs: Inputs, shape: Shape, config: ModelConfig) -> dict[str, np.ndarray]:
    """Of one word a softmax is one whatever the score; of S words a location has S rows."""
    idle = (*SCORE_WEIGHTS, "W_p", "v_p") if config.renormalise else SCORE_WEIGHTS
    scores = {name: a for name, a in inputs.items() if name.split(".")[-1] in idle}
    if shape.steps == 1:
        return {name: np.ones(a.shape, dtype=bool) for name, a in scores.items()}
    if config.score != "location" or not scores:
        return {}
    W_a = scores["attention.W_a"]
    return {"attention.W_a": np.broadcast_to(
        np.arange(len(W_a))[:, None] >= shape.steps, W_a.shape)}


def draw_batch(rng: Rng, shape: Shape) -> Batch:
    """Sentence pairs of the shape's lengths, a target shorter than its source by one or more."""
    lengths = zip(shape.lengths, np.roll(shape.lengths, 1).tolist(), strict=True)
    pairs = [(rng.integers(*WORDS, size=m).tolist(), rng.integers(*WORDS, size=n - 1).tolist())
             for m, n in lengths]
    return make_batch(pairs, range(len(pairs)), reverse_source=REVERSE)


def mask_rng(config: ModelConfig | LanguageModelConfig) -> Rng | None:
    """What the dropout masks are drawn from, the same in every run."""
    return np.random.default_rng(MASKS) if config.dropout else None


def host(mask: Any) -> np.ndarray | None:
    """A mask as an oracle reads it."""
    return None if mask is None else to_host(mask)


# --- at several shapes --------------------------------------------------------------------------

MODELS: dict[str, dict[str, Any]] = {
    "general, feeding": {},
    "dot, feeding": {"score": "dot"},
    "general": {"input_feeding": False},
    "dot, 1 layer": {"input_feeding": False, "score": "dot", "layers": 1},
    "no attention": NO_LOOK,
    "both ends, feeding": BOTH_ENDS,
    "both ends": BOTH_ENDS | {"input_feeding": False},
    "both ends, no attention": BOTH_ENDS | NO_LOOK,
    "bridge, no bias": {"bridge": True, "biases": False},
    "output bias, 3 layers": {"output_bias": True, "layers": 3},
    "3 layers": {"layers": 3, "input_feeding": False},
    "both ends, 3 units": BOTH_ENDS | {"hidden_size": 3, "input_feeding": False},
    "one unit": {"hidden_size": 1, "embedding_size": 1},
    "dropout, feeding": {"dropout": 0.3},
    "dropout": {"dropout": 0.3, "input_feeding": False},
    "dropout, no attention": {"dropout": 0.3, **NO_LOOK},
    "rnn, feeding": {"unit": "rnn"},
    "rnn, both ends": {"unit": "rnn", **BOTH_ENDS, "input_feeding": False},
    "rnn, no attention": {"unit": "rnn", **NO_LOOK},
    "gru": {"unit": "gru", "input_feeding": False},
    "gru, both ends, dropout": {"unit": "gru", **BOTH_ENDS, "input_feeding": False, "dropout": 0.3},
}
LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "": {},
    ", rnn, 1 layer, no bias": {
        "unit": "rnn", "layers": 1, "biases": False, "output_bias": False},
    ", one unit": {"hidden_size": 1, "embedding_size": 1},
    ", dropout": {"dropout": 0.3},
    ", gru": {"unit": "gru"},
}

SMALL_WINDOW = {"window": 1, "location_length": 3}


def ways_of_attending() -> dict[str, dict[str, Any]]:
    """Every score in every window that it can look through, with feeding and not, 1-2 layers."""
    found = {}
    scores, windows = (*SCORES, "concat, identity"), (*WINDOWS, "local-p, renormalised")
    for score, window, feeding, layers in product(scores, windows, (True, False), (1, 2)):
        options = {"score": score.split(",")[0], "attention": window.split(",")[0],
                   "input_feeding": feeding, "layers": layers, **SMALL_WINDOW}
        options |= {"concat_identity": True} if "identity" in score else {}
        options |= {"renormalise": True} if "renormalised" in window else {}
        plain = window == "global" and score in PRODUCTS  # above
        if not plain and not (score == "location" and window != "global"):
            found[f"{score}, {window}{', feeding' * feeding}, {layers} layers"] = options
    return found


WAYS = ways_of_attending()
ENTRIES = [
    *(Entry(f"language model{name}", (), partial(language_model, **options),
            USUAL, kind="language model")
      for name, options in LANGUAGE_MODELS.items()),
    *(Entry(f"translator, {name}", (), partial(translator, **options),
            ("ragged", "full" if "dropout" in options else "smallest"), 16, "translator")
      for name, options in MODELS.items()),
    *(Entry(f"translator, {name}", (), partial(translator, **options), ("ragged",), 6, "translator")
      for name, options in WAYS.items()),
]


# --- every configuration ------------------------------------------------------------------------

EACH = ("ragged", "one sentence", "one step")  # padding, B = 1, T = 1
Choices = dict[str, tuple[Any, ...]]
EVERY_MODEL: Choices = {
    "unit": tuple(UNITS), "layers": (1, 2), "dropout": (0.0, 0.3), "clip_dh": (None, NEVER),
    "output_bias": (False, True),
}
CHOICES: dict[str, Choices] = {  # kind of model -> option -> its values
    "language model": EVERY_MODEL | {"biases": (True, False)},
    "translator": EVERY_MODEL | {
        "bidirectional": (False, True), "bridge": (False, True), "attention": ("none", "global"),
        "score": PRODUCTS, "input_feeding": (False, True)},
}
# Ways of attending beside the product above: with what could matter to them, and no more.
OTHER_WAYS: Choices = {
    "layers": (1, 2), "bidirectional": (False, True), "bridge": (False, True),
    "attention": WINDOWS, "score": tuple(SCORES), "concat_identity": (False, True),
    "renormalise": (False, True), "window": (1,), "location_length": (3,),
    "input_feeding": (False, True),
}
WORDING: dict[str, Callable[[Any], str]] = {  # an option in the name of a configuration
    "unit": str,
    "layers": lambda n: f"{n} layer{'s' * (n > 1)}",
    "biases": lambda yes: "" if yes else "no bias",
    "bidirectional": lambda yes: "both ends" if yes else "one end",
    "bridge": lambda yes: "bridge" * yes,
    "attention": lambda name: {"none": "no attention", "global": ""}.get(name, name),
    "score": str,
    "concat_identity": lambda yes: "identity" * yes,
    "renormalise": lambda yes: "renormalised" * yes,
    "window": lambda D: "",
    "location_length": lambda length: "",
    "input_feeding": lambda yes: "feeding" * yes,
    "dropout": lambda rate: f"dropout {rate}" if rate else "",
    "clip_dh": lambda limit: "clip" if limit else "",
    "output_bias": lambda yes: "output bias" * yes,
}


def configurations(
    kind: str, make: Callable[..., Case], config: Callable[..., Any], choices: Choices
) -> Iterator[Entry]:
    """Every valid configuration of one kind of model; `config` raises ValueError on the others.

    Without attention there is no score to choose: one of them stands for both, unnamed.
    """
    order = [option for option in WORDING if option in choices]
    for values in product(*(choices[option] for option in order)):
        options = dict(zip(order, values, strict=True))
        words = {option: WORDING[option](value) for option, value in options.items()}
        if options.get("attention") == "none":
            if options.pop("score") != "general":
                continue
            del words["score"]
        try:
            config(**options)
        except ValueError:
            continue
        name = f"{kind}: {', '.join(filter(None, words.values()))}"
        yield Entry(name, (), partial(make, **options), EACH, 4, kind)


def is_new(entry: Entry) -> bool:
    """Whether a way is not in the product of `CHOICES`, and its bridge is the encoder's need."""
    options = entry.options
    plain = options["attention"] == "global" and options["score"] in PRODUCTS
    return not plain and options["bridge"] == options["bidirectional"]


CONFIGURATIONS = [
    *configurations("language model", language_model, LanguageModelConfig,
                    CHOICES["language model"]),
    *configurations("translator", translator, ModelConfig, CHOICES["translator"]),
    *filter(is_new, configurations("translator", translator, ModelConfig, OTHER_WAYS)),
]
