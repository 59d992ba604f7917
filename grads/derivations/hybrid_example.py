"""The examples of the hybrid model: both paths, with a rare word twice in the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from grads.derivations.attention import GENERAL
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    TRANSLATION,
    Example,
    Request,
    Sizes,
    draw,
    numbers,
    sides_of,
    translation_shapes,
    vocabulary_of,
)
from grads.derivations.hybrid import SEPARATE, SOURCE, TARGET, hybrid_backward, hybrid_forward

PAIR = "we go* go* ||| on va*"  # * marks a rare word
RARE = "*"
CHARACTERS = ("<unk>", "_")  # before the letters: the unknown character, the boundary


def hybrid_example(separate: bool, request: Request) -> Example:
    """A sentence and its translation; words marked by * are rare, and so is the longest word of a
    side without marks. Attention is global and bilinear, as in "all my models" (5.2)."""
    sizes = replace(request.sizes, score=GENERAL.score, window=GENERAL.window)
    source, target = (marked(words) for words in sides_of(request, PAIR))
    words = {"encoder.W_e": vocabulary_of(frequent(source)),
             "decoder.W_e": vocabulary_of(frequent(target))}
    letters = [[*CHARACTERS, *dict.fromkeys("".join(rare_in(side)))] for side in (source, target)]
    rare = rare_in(source)
    x = numbers(bare(source), [*words["encoder.W_e"], *rare])
    y = numbers(bare(target), words["decoder.W_e"])
    spellings = {t: numbers(word[:-1], letters[1]) for t, word in enumerate(target, start=1)
                 if word.endswith(RARE)}
    shapes = hybrid_shapes(list(map(len, words.values())), list(map(len, letters)), sizes, separate)
    names = {"encoder.W_e": [*words["encoder.W_e"], *rare], "decoder.W_e": words["decoder.W_e"]}
    return Example((draw(request.rng, shapes), x, y, [numbers(word, letters[0]) for word in rare],
                    spellings), {"variant": sizes.variant}, names)


def hybrid_shapes(
    words: Sequence[int], characters: Sequence[int], sizes: Sizes, separate: bool
) -> dict[str, tuple[int, ...]]:
    """The parameters by name; words and characters: the vocabularies' sizes, source and target."""
    H, E, Ec = sizes.hidden, sizes.embedding, sizes.embedding + 2
    shapes = translation_shapes(words[0], words[1], sizes)
    for name, C, width in ((SOURCE, characters[0], E), (TARGET, characters[1], H)):
        shapes[f"{name}.W_e"] = (C, Ec)
        for l in range(sizes.layers):
            shapes[f"{name}.{l}.W"] = (4 * width, (width if l else Ec) + width)
            shapes |= {f"{name}.{l}.b": (4 * width,)} if sizes.biases else {}
    shapes |= {SEPARATE: (H, 2 * H)} if separate else {}
    shapes[f"{TARGET}.output.W_hy"] = (characters[1], H)
    return shapes | ({f"{TARGET}.output.b": (characters[1],)} if sizes.biases else {})


# --- marked words -------------------------------------------------------------------------------


def marked(words: Sequence[str]) -> list[str]:
    """The words, with a * behind rare ones; if none has one, the longest gets it."""
    if any(word.endswith(RARE) and word != RARE for word in words):
        return list(words)
    longest = max(words, key=len)
    return [f"{word}{RARE}" if word == longest else word for word in words]


def rare_in(words: Sequence[str]) -> list[str]:
    """The rare words, each once, without their marks."""
    return list(dict.fromkeys(word[:-1] for word in words if word.endswith(RARE)))


def frequent(words: Sequence[str]) -> list[str]:
    """The other words."""
    return [word for word in words if not word.endswith(RARE)]


def bare(words: Sequence[str]) -> list[str]:
    """All words without marks."""
    return [word.removesuffix(RARE) for word in words]


# --- declarations -------------------------------------------------------------------------------

HERE = "grads.derivations"
ONE_PLACE = {
    "one place of a rare word": Mistake(
        f"{HERE}.hybrid.hybrid_backward", "dW[[V + r - 1]].T", "0.5 * dW[[V + r - 1]].T",
        "half of what its vector's two places send back, as if it were their mean."),
}
SEPARATE_MISTAKES = {
    "context read once": Mistake(
        f"{HERE}.attention_step.attend_grad", "dc_joined + dc_seed", "dc_joined",
        "c_t gets its gradient through W only, not through W' of (5.6)."),
    "state read once": Mistake(
        f"{HERE}.attention.decode_grad", "+ d_vertical + seed.dh}", "+ d_vertical}",
        "h_t gets its gradient through W only, not through W' of (5.6)."),
}
SAME_MISTAKES = {
    "speller's gradient lost": Mistake(
        f"{HERE}.attention.decode_grad", "+ P.T @ d_fed + seed.dh_tilde", "+ P.T @ d_fed",
        "h~_t gets no gradient from the word that is spelled from it."),
    "recurrent term dropped": Mistake(
        f"{HERE}.encoders.encode_grad", "L: dg[s][L] + dh_bar", "L: dh_bar",
        "the top layer's dg_s is what its reader sends back, without the next position's."),
}

SETTINGS = (*TRANSLATION, "layers")
DECLARATIONS = (
    Declaration(
        "hybrid", "Hybrid word-character model, separate path, chapter 5",
        hybrid_forward, hybrid_backward, partial(hybrid_example, True), PAIR, SETTINGS,
        mistakes=SEPARATE_MISTAKES | ONE_PLACE),
    Declaration(
        "hybrid-same", "Hybrid word-character model, same path, chapter 5",
        hybrid_forward, hybrid_backward, partial(hybrid_example, False), PAIR, SETTINGS,
        mistakes=SAME_MISTAKES | ONE_PLACE),
)
