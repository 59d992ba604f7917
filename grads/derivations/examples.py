"""The examples of the derivations: sentences and random parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from grads.derivations.scores import CONTENT, SCORES, Variant, weight_shapes

Shapes = dict[str, tuple[int, ...]]  # by name of the parameter
WINDOWS = ("global", "local-m", "local-p")
L_MAX = 6  # rows of W_a for the score location
LANGUAGE = ("sentence", "model", "checkpoint")  # the settings of a language model
TRANSLATION = ("sentence", "target", "model", "checkpoint")  # those of a translator
SCORED = ("score", "window")  # those of its attention
UNKNOWN, END = 0, 1  # as in nmt.data.vocabulary
TEXT = "we read the page"  # four words
PAIR = "wir lesen die Seite ||| we read the page"  # source ||| target


@dataclass(frozen=True)
class Sizes:
    """The sizes and the attention variant of a random model."""

    hidden: int = 3
    embedding: int = 2  # differs from hidden, so that shapes identify tensors
    layers: int = 2  # of an encoder and of a decoder
    biases: bool = True
    score: str = "general"  # one of grads.derivations.scores.SCORES
    window: str = "global"  # "local-m", "local-p"
    D: int = 1  # half the window
    input_feeding: bool = True

    def __post_init__(self) -> None:
        for name in ("hidden", "embedding", "layers", "D"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        for name, known in (("score", SCORES), ("window", WINDOWS)):
            if getattr(self, name) not in known:
                raise UserError(f"{name}: expected one of {', '.join(known)}, got "
                                f"{getattr(self, name)!r}")
        if self.window != "global" and self.score not in CONTENT:
            raise UserError(f"score: expected one of {', '.join(CONTENT)} in a window, got "
                            f"{self.score!r}")

    @property
    def variant(self) -> Variant:
        """The attention variant."""
        return Variant(self.score, self.window, self.D)


@dataclass(frozen=True)
class Example:
    """The inputs of a derivation."""

    arguments: tuple[Any, ...]  # of the forward
    named: dict[str, Any] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)  # by name of the embedding
    upstream: Any = None  # of a single step: the upstream gradients of its outputs


class Request(NamedTuple):
    """The settings from which an example is made."""

    sentence: str | None  # None for the derivation's own
    sizes: Sizes
    rng: np.random.Generator


def language_example(rows: int, request: Request) -> Example:
    """A sentence for a language model: each word predicts the next one, the last one the end.

    Arguments: rows, rows of T for each hidden unit.
    """
    text = split_words(TEXT if request.sentence is None else request.sentence, "sentence")
    vocabulary = vocabulary_of(text)
    ids = numbers(text, vocabulary)
    V, E, H = len(vocabulary), request.sizes.embedding, request.sizes.hidden
    shapes: Shapes = {"W_e": (V, E), "T": (rows * H, E + H), "W_hy": (V, H)}
    shapes |= {"b": (rows * H,), "b_hy": (V,)} if request.sizes.biases else {}
    parameters = draw(request.rng, shapes)
    return Example((parameters, ids, [*ids[1:], END]), {}, {"W_e": vocabulary})


def translation_example(
    shapes: Callable[[int, int, Sizes], Shapes], request: Request, **named: Any
) -> Example:
    """A sentence and its translation, "source ||| target".

    Arguments: shapes, of the parameters by name, from the sizes of both vocabularies; named, other
    arguments of the forward.
    """
    ids, words = pair_of(request)
    V_s, V_t = map(len, words.values())
    parameters = draw(request.rng, shapes(V_s, V_t, request.sizes))
    return Example((parameters, *ids), named, words)


def attention_example(shapes: Callable[[int, int, Sizes], Shapes], request: Request) -> Example:
    """The same for a model with attention, in the variant that is asked for."""
    return translation_example(shapes, request, variant=request.sizes.variant)


def pair_of(request: Request) -> tuple[list[list[int]], dict[str, list[str]]]:
    """The token ids of source and target, and their vocabularies."""
    source, target = sides_of(request, PAIR)
    words = {"encoder.W_e": vocabulary_of(source), "decoder.W_e": vocabulary_of(target)}
    return [numbers(source, words["encoder.W_e"]), numbers(target, words["decoder.W_e"])], words


def sides_of(request: Request, default: str) -> list[list[str]]:
    """The words of source and target."""
    return split_sides(request, default, ("source", "target"))


def split_sides(request: Request, default: str, names: Sequence[str]) -> list[list[str]]:
    """The words of each side of a sentence."""
    sides = (default if request.sentence is None else request.sentence).split("|||")
    if len(sides) != len(names):
        what = "a source and its translation around |||" if len(names) == 2 else \
            " ||| ".join(names)
        raise UserError(f"sentence: expected {what}, got {request.sentence!r}")
    return list(map(split_words, sides, names))


def no_sentence(request: Request) -> None:
    """Raise UserError if a sentence is given for a single step."""
    if request.sentence is not None:
        raise UserError("sentence: a single step reads no sentence")


# --- shapes -------------------------------------------------------------------------------------


def translation_shapes(V_s: int, V_t: int, sizes: Sizes, attentional: bool = True) -> Shapes:
    """The parameters of an encoder-decoder, under the kernels' names."""
    H, E = sizes.hidden, sizes.embedding
    shapes: Shapes = {"encoder.W_e": (V_s, E), "decoder.W_e": (V_t, E)}
    for side in ("encoder", "decoder"):
        for l in range(sizes.layers):
            fed = H if side == "decoder" and attentional and sizes.input_feeding and not l else 0
            shapes[f"{side}.{l}.W"] = (4 * H, (H if l else E) + fed + H)
            if sizes.biases:
                shapes[f"{side}.{l}.b"] = (4 * H,)
    if attentional:
        shapes |= {"attention.W_c": (H, 2 * H), **score_shapes(sizes)}
    shapes["output.W_hy"] = (V_t, H)
    return shapes | ({"output.b": (V_t,)} if sizes.biases else {})


def is_fed(parameters: Any) -> bool:
    """Whether a decoder's first layer reads h~_{t-1}: more than the embedding and its own state."""
    rows, columns = parameters["decoder.0.W"].shape
    return bool(columns > parameters["decoder.W_e"].shape[1] + rows // 4)


def score_shapes(sizes: Sizes) -> Shapes:
    """The parameters of a score, and of a predicted position."""
    H, A = sizes.hidden, sizes.hidden + 1  # differs from H, so that shapes identify tensors
    position: Shapes = {"W_p": (A, H), "v_p": (A,)}
    shapes = weight_shapes(sizes.score, H, A, L_MAX)
    shapes |= position if sizes.window == "local-p" else {}
    return {f"attention.{name}": shape for name, shape in shapes.items()}


def draw(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Normals of standard deviation 0.7, so that gates are neither saturated nor linear."""
    return {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes.items()}


def split_words(text: str, name: str) -> list[str]:
    """The words of a text; `UserError` if there is none."""
    words = text.split()
    if not words:
        raise UserError(f"{name}: expected at least one word, got {text!r}")
    return words


def vocabulary_of(words: Sequence[str]) -> list[str]:
    """The special symbols and the words, each once."""
    return ["<unk>", "</s>", *dict.fromkeys(words)]


def numbers(words: Sequence[str], vocabulary: Sequence[str]) -> list[int]:
    """The token ids of words; UNKNOWN for words outside the vocabulary."""
    ids = {word: i for i, word in enumerate(vocabulary)}
    return [ids.get(word, UNKNOWN) for word in words]
