"""Logits taken apart into norms, cosines and biases (Nguyen, 2019, 3.2.2, 3.2.6); and a lexicon.

A logit is |W_e| |h~| cos(W_e, h~) + b_e, to which the lexical module adds
|W_l,e| |h^l| cos(W_l,e, h^l). The inputs of the prediction layer are taken from the cache of the
model's loss along a given target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backend import array_module, to_host
from backend.errors import UserError
from nmt.analysis.summands import Logit, taken_apart
from nmt.data.corpus import Pair
from nmt.data.vocabulary import SPECIALS
from nmt.evaluation.pictures import finish, new_axes, style
from nmt.models.heads.lexical import W_HY, W_L, lexical_step
from nmt.system import System
from nmt.training.finite import naming_overflow


class Norms(NamedTuple):
    """|W_e|, b_e and |W_l,e| of the target's words, in the order of their frequency."""

    words: Sequence[str]
    columns: dict[str, np.ndarray]  # heading -> (V,)


def logits_of(system: System, pair: Pair, rivals: int) -> list[list[Logit]]:
    """The logits of each step along a pair's target: that of the target's word, then those of its
    best rivals.

    Raises UserError unless the model has exactly one matrix of target words.
    """
    output_weights(system)
    if getattr(system.recipe.model, "lexicon_epsilon", None) is not None:
        raise UserError("model.lexicon_epsilon: expected null, got a lexicon, whose bias this "
                        "command does not show")
    batch = next(system.batches([pair], 1).in_order())
    model: Any = system.model
    with naming_overflow(system.parameters):
        _, cache = model.loss(system.parameters, batch)
    prediction = cache.output.prediction
    h, W = (np.asarray(to_host(array), np.float64) for array in (prediction.h, prediction.W_hy))
    cut = system.parameters[W_HY].shape[1]
    slices = [slice(0, cut), slice(cut, None)][: 1 + (W.shape[1] > cut)]
    b = _bias(system, len(W))
    return [taken_apart([(W[:, columns], h[t, columns]) for columns in slices], b, target,
                        system.target.words, rivals)
            for t, target in enumerate(batch.target_out[: len(h), 0].tolist())]


def output_weights(system: System) -> np.ndarray:
    """W_o (V, H). Raises UserError for a model without it, and for one with several, such as an
    ensemble."""
    config = system.recipe.model
    if W_HY not in system.parameters or getattr(config, "target_characters", False):
        raise UserError(f"expected a model with {W_HY} that predicts words or pieces alone, got "
                        f"one with {', '.join(sorted(system.parameters)[:3])}, ...")
    return np.asarray(to_host(system.parameters[W_HY]), np.float64)


def _bias(system: System, V: int) -> np.ndarray:
    """b_e (V,), which is zero if the model has no bias."""
    if "output.b" not in system.parameters:
        return np.zeros(V)
    return np.asarray(to_host(system.parameters["output.b"]), np.float64)


def norms(system: System) -> Norms:
    """The norms of the target's rows and the biases, the most frequent word first."""
    W, first = output_weights(system), len(SPECIALS)
    columns = {"norm": np.linalg.norm(W, axis=1), "bias": _bias(system, len(W))}
    if W_L in system.parameters:
        rows = np.asarray(to_host(system.parameters[W_L]), np.float64)
        columns["lexical norm"] = np.linalg.norm(rows, axis=1)
    return Norms(system.target.words[first:],
                 {name: column[first:] for name, column in columns.items()})


def draw_norms(columns: Mapping[str, np.ndarray], size: int, path: Path) -> None:
    """Draw norms and biases of words from the most frequent on (Nguyen, 2019, Figure 3.2).

    columns: heading -> (V,). size: how many words share a bin, of which median and range are drawn.
    Raises UserError without matplotlib.
    """
    figure, axes = new_axes(path)
    for number, (name, values) in enumerate(columns.items()):
        middles, (least, median, largest) = binned(values, size)
        axes.plot(middles + 1, median, label=name, **style(number))
        axes.fill_between(middles + 1, least, largest, color=f"C{number}", alpha=0.2)
    axes.set(xlabel="rank by frequency", ylabel=f"median and range of {size} words")
    finish(figure, axes, path, "Norms and biases of target words")


def binned(values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Values in bins of `size` neighbours: the middle positions (N,) of the bins, from 0, and the
    least, median and largest value of each, (3, N)."""
    starts = range(0, len(values), size)
    bins = [values[start : start + size] for start in starts]
    middles = [start + (len(words) - 1) / 2 for start, words in zip(starts, bins, strict=True)]
    return np.array(middles), np.array([np.quantile(words, (0.0, 0.5, 1.0)) for words in bins]).T


# --- the lexicon ----------------------------------------------------------------------------------


def lexicon(
    system: System, words: Sequence[str], top: int
) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """The most probable target words of source words by the lexical module alone, with all
    attention on the source word (Table 3.9): p = softmax(W_l h^l + b_l).

    b_l is half of the model's bias (erratum 33). Raises UserError for a model without the module,
    and for words outside its vocabulary.
    """
    config: Any = system.recipe.model
    if not getattr(config, "lexical", False):
        raise UserError("model.lexical: expected a model with the lexical module, got one without")
    if config.factors:
        raise UserError(f"model.factors: expected none, got {', '.join(config.factors)}")
    unknown = [word for word in words if word not in system.source.words]
    if unknown:
        raise UserError(f"WORD: expected words or pieces of the source's vocabulary, got "
                        f"{', '.join(unknown[:5])}")
    for word, i in zip(words, system.source.ids(words), strict=True):
        f = system.parameters["encoder.W_e"][i][None, None]                # (1, 1, E)
        alone = lexical_step("lexical", system.parameters, f, array_module(f).ones_like(f[:, :, 0]),
                             config.output_norm)
        logits = np.asarray(to_host(alone), np.float64)[0]
        logits = logits + 0.5 * _bias(system, len(logits))
        p = np.exp(logits - logits.max())
        p /= p.sum()
        best = np.argsort(-p, kind="stable")[:top].tolist()
        yield word, [(system.target.words[k], float(p[k])) for k in best]


# --- tables ---------------------------------------------------------------------------------------

HEADINGS = ("step", "word", "chosen", "p", "logit", "|W|", "|h|", "cos", "W h", "|W_l|", "|h_l|",
            "cos_l", "W_l h_l", "bias")


def table_of(steps: Iterable[Sequence[Logit]]) -> Iterator[list[str]]:
    """Rows of a table of logits. Without the lexical module, its columns are left out."""
    for t, logits in enumerate(steps, start=1):
        for logit in logits:
            products = [logit.output, *([] if logit.lexical is None else [logit.lexical])]
            yield [str(t), logit.word, "*" if logit.chosen else "", f"{logit.probability:.4f}",
                   f"{logit.value:.3f}",
                   *(f"{number:.3f}" for product in products
                     for number in (*product, product.value)),
                   f"{logit.bias:.3f}"]


def headings(lexical: bool) -> list[str]:
    """The headings of the table, with or without the columns of the lexical module."""
    return [name for name in HEADINGS if lexical or "_l" not in name]
