"""Classes of weights for pruning, derived from the weights that a model declares.

Source: thesis, section 6.2.2, Figure 6.5. The classes are each layer of each side, attention,
softmax and the two embeddings: twelve with four layers. The class attention has W_c and the weights
of the score (W_a ...). The thesis leaves the following open. A bridge and a deep output are
classes. The two directions of a layer are one class, and so is a Transformer's layer with its
attention. The character networks of a hybrid model have their own layers, embeddings and softmax.
Biases are in no class and are not pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lstm.parameters import Weight

SIDES = {"encoder": "source", "second_encoder": "second source", "decoder": "target"}
LAST = ("attention", "softmax", "embedding")  # classes after the layers, as in Figure 6.7


def classes(weights: Mapping[str, Weight]) -> dict[str, str]:
    """Name -> class of each weight that may be pruned, in the order of `weights`."""
    by_name = {name: _class(name, weight) for name, weight in weights.items()}
    return {name: weight_class for name, weight_class in by_name.items()
            if weight_class is not None}


def in_order(names: Iterable[str]) -> list[str]:
    """The distinct classes in the order of the figures: layers, then others, then LAST."""
    return sorted(dict.fromkeys(names), key=_place)


def _place(name: str) -> int:
    """The sort key of a class."""
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
