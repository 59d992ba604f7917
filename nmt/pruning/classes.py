"""Classes of weights for pruning, derived from the weights that a model declares.

Source: thesis, section 6.2.2, Figure 6.5: each layer of each side, attention, softmax, the two
embeddings; twelve with four layers. The class attention has W_c and the weights of the score
(W_a ...). Not in the thesis: a bridge and a deep output are classes; the two directions of a layer
are one class; so is a Transformer's layer with its attention; the character networks of a hybrid
model have layers, embeddings and a softmax of their own; biases are in no class, and not pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lstm.parameters import Weight

SIDES = {"encoder": "source", "second_encoder": "second source", "decoder": "target"}
LAST = ("attention", "softmax", "embedding")  # after the layers, in the order of Figure 6.7


def classes(weights: Mapping[str, Weight]) -> dict[str, str]:
    """The class of each weight that may be pruned: name -> class, in the order of `weights`."""
    by_name = {name: _class(name, weight) for name, weight in weights.items()}
    return {name: weight_class for name, weight_class in by_name.items()
            if weight_class is not None}


def in_order(names: Iterable[str]) -> list[str]:
    """Distinct classes in the order of the figures: layers, others, and then LAST."""
    return sorted(dict.fromkeys(names), key=_place)


def _place(name: str) -> int:
    """A sort key, stable within layers and within all else."""
    if " layer " in f" {name}":
        return 0
    return 2 + LAST.index(name.split()[-1]) if name.split()[-1] in LAST else 1


def _class(name: str, weight: Weight) -> str | None:
    """The class of one weight; None for biases, gains of norms and the radius of fixnorm."""
    *path, leaf = name.split(".")
    if leaf.startswith("b") or leaf in ("g", "radius"):
        return None
    prefix = path[0] if path else ""
    side = SIDES.get(prefix, "" if prefix in ("rnn", "output") else prefix.replace("_", " "))
    axes = [axis.name for axis in weight.axes]
    if axes[0] == "gate" or (prefix in SIDES and len(path) > 1):
        layer = next((int(component) + 1 for component in path if component.isdigit()), 1)
        return f"{side} layer {layer}".strip()
    if axes in (["word", "input"], ["character", "input"]):
        return f"{side} embedding".strip()
    if axes in (["word", "unit"], ["character", "unit"]):
        return f"{side} softmax".strip()
    return "deep output" if prefix == "output" else side or name
