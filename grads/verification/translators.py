"""Options of translators that have their own variants in the catalogue.

A model's own variants are checked without these options. Here each option is combined with the
parts that it touches: a sampled vocabulary with the prediction layer and with both models that have
it; factors with the parts that read the source's vectors; the lexical module and a lexicon's bias
with the ways to compute a_t, with the loops, and with each other; residual connections and
layer-normalised units with each other and with every way through a stack. A norm of fewer than
three elements has no derivative, but for eps, so these units are three wide. Over 24 steps the
gradient of a random layer-normalised stack explodes: in a bidirectional one, rounding the inputs to
float32 changes it by 1e-3 of its size. So the real sizes have one direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attention.scores import WINDOWS
from lstm.sampled import SAMPLE_WEIGHTS
from nmt.models.contract import Architecture
from nmt.models.registry import MODELS
from nmt.models.translator_config import SITES
from nmt.models.variants import NEVER, NORMALISED, Variants

Choices = Mapping[str, Sequence[Any]]
TINY = {"hidden_size": (2,), "embedding_size": (4,)}
REAL = {"hidden_size": (24,), "embedding_size": (26,)}
OF_LUONG = {"layers": (1,), "window": (1,), "location_length": (3,)}
ALIGNED = {"input_feeding": (True, False), "attention": WINDOWS, "score": ("general", "location")}
SAMPLED = {"target_sample": (1, 10**6), "sample_weights": SAMPLE_WEIGHTS,
           "output_bias": (False, True)}  # few words, and more than there are
SAMPLED_REAL = SAMPLED | {"target_sample": (20,), "output_bias": (True,)}
TAGS: Mapping[str, int] = {"case": 1, "place": 2}  # columns of the embeddings


def architecture(model: str, tiny: Choices, real: Choices, usual: bool = False) -> Architecture:
    """A model of the registry with these choices at tiny sizes, and with these changes of them at
    real sizes. usual: at real sizes and in other combinations, all other options are as usual."""
    sizes = OF_LUONG if model == "luong" else {}
    first = {name: values[:1] for name, values in tiny.items()} if usual else tiny
    variants = {"tiny": Variants({**sizes, **TINY, **tiny}),
                "real": Variants({**sizes, **REAL, **first, **real})}
    if usual:
        variants["every"] = Variants({**sizes, **TINY, **first})
    return MODELS[model]._replace(variants=lambda: variants)


ARCHITECTURES = {
    "sampled": architecture("luong", SAMPLED | {"dropout": (0.3,)}, SAMPLED_REAL),
    "sampled rnnsearch": architecture("rnnsearch", SAMPLED | {"layer_size": (2,)}, SAMPLED_REAL),
    "factored": architecture("luong", {
        "factors": (TAGS, {"case": 1}), "bidirectional": (False, True), "bridge": (False, True),
        "dropout": (0.0, 0.3),
    }, {"factors": (TAGS,), "bidirectional": (True,), "bridge": (True,), "dropout": (0.3,)}),
    "lexical": architecture("luong", {
        "lexical": (True,), **ALIGNED, "dropout": (0.3, 0.0), "output_norm": (2.0, None),
        "output_bias": (True, False), "target_sample": (None, 2), "factors": ({}, {"case": 1}),
    }, {"input_feeding": (True, False)}, usual=True),
    "lexicon": architecture("luong", {
        "lexicon_epsilon": (0.1, 1e-3), **ALIGNED, "lexical": (False, True), "dropout": (0.3, 0.0),
        "output_bias": (True, False),
    }, {"lexicon_epsilon": (1e-3,), "input_feeding": (True, False)}, usual=True),
    "deep stacks": architecture("luong", {
        "unit": (*NORMALISED, "lstm", "gru"), "residual": (True, False), "layers": (2, 3),
        "input_feeding": (True, False), "attention": ("global", "none"),
        "bidirectional": (False, True), "bridge": (False, True), "biases": (True, False),
        "dropout": (0.0, 0.3), "dropout_sites": SITES, "clip_elements": (None, NEVER),
        "hidden_size": (3,),
    }, {"unit": (*NORMALISED, "lstm"), "input_feeding": (True, False), "dropout": (0.3,),
        "hidden_size": (24,)}, usual=True),
}
