"""Deep fusion: RNNsearch whose output head reads a language model's state through a gate.

Source: Gulcehre et al. (2015), section 4.2; the head is in `nmt.models.heads.fusion`. In the paper,
translator and language model are trained separately and then frozen, and only the output layer is
trained further. The recipe's `parametrize.frozen` does that (`nmt lm fuse` writes it). Here every
parameter has a gradient.
"""

from __future__ import annotations

from nmt.models.contract import Architecture, Tables
from nmt.models.deep_fusion_config import DeepFusionConfig
from nmt.models.heads.fusion import Fusion
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch import variants as translator_variants
from nmt.models.variants import PLAIN, Variants


def build(config: DeepFusionConfig, tables: Tables) -> RNNSearch:
    """The model of a configuration."""
    return RNNSearch(config, tables.sources[0], tables.target, tables.reverse_source, Fusion)


def variants() -> dict[str, Variants]:
    """The options of the language model, with the translator's options that this code combines;
    fewer at real sizes."""
    made = {}
    for tier, of_tier in translator_variants().items():
        few = tier == "real"
        made[tier] = Variants({
            **{name: of_tier.choices[name]
               for name in ("hidden_size", "embedding_size", "layer_size")},
            "lm_unit": PLAIN, "lm_layers": (2, 1), "lm_biases": (True, False)[: 2 - few],
            **{name: of_tier.choices[name][: 2 - few] for name in (
                "context", "layer", "deep_state", "biases", "clip_elements")},
            "lm_hidden_size": (28 if few else 4,), "lm_embedding_size": (20 if few else 3,)})
    return made | {"every": made["tiny"]._replace(choices={
        name: values[:1] for name, values in made["tiny"].choices.items()})}


ARCHITECTURE = Architecture(DeepFusionConfig, build, variants)
