"""A map of words: their vectors in two dimensions (Luong, 2016, Figure 5.4).

Principal components come with NumPy; the figure's Barnes-Hut t-SNE (van der Maaten, 2013) is
scikit-learn's (the extra `map`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backend.errors import UserError
from nmt.evaluation.pictures import finish, require_drawing

PERPLEXITY = 30.0  # t-SNE's usual one; of few points a third of their number
KINDS = ("word-based", "character-based")  # as Figure 5.4 tells words apart
COLOURS = ("tab:blue", "tab:red")


def principal_components(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points (N, 2) in the plane of most variance, and the share of the variance of each axis.

    Along each axis the word that is farthest out is on the positive side. vectors: (N, E).
    """
    centred = vectors - vectors.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    kept = min(2, len(sizes))
    points[:, :kept] = left[:, :kept] * sizes[:kept]
    farthest = points[np.abs(points).argmax(axis=0), np.arange(2)]
    shares = np.zeros(2)
    shares[:kept] = sizes[:kept] ** 2 / max(float((sizes**2).sum()), np.finfo(float).tiny)
    return points * np.where(farthest < 0, -1.0, 1.0), shares


def t_sne(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """The points (N, 2) of Barnes-Hut t-SNE, begun at the principal components.

    vectors: (N, E), at least four. Raises UserError without scikit-learn, or for fewer.
    """
    require_sklearn("t-SNE")
    if len(vectors) < 4:
        raise UserError(f"words: expected at least four for t-SNE, got {len(vectors)}")
    from sklearn.manifold import TSNE

    begin, _ = principal_components(vectors)
    spread = begin[:, 0].std()
    method = TSNE(perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3), random_state=seed,
                  init=1e-4 * begin / (spread or 1.0))
    return np.asarray(method.fit_transform(vectors), float)


def require_sklearn(wanted: str) -> None:
    """Raise UserError, naming what was asked for, unless scikit-learn is installed."""
    if importlib.util.find_spec("sklearn") is None:
        raise UserError(f"{wanted}: scikit-learn is not installed (pip install scikit-learn, or "
                        "this package's extra 'map')")


def draw_words(
    words: Sequence[str], points: np.ndarray, frequent: Sequence[bool], axes: Sequence[str],
    path: Path,
) -> None:
    """The words at their points, as PNG: looked up in blue, made of characters in red and italics.

    points: (N, 2). frequent: whether a word's vector is a row of the vocabulary's. axes: what is
    written along both. Raises UserError without matplotlib.
    """
    require_drawing(str(path))
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    plot = figure.add_subplot()
    for kind, label in enumerate(KINDS):
        chosen = [i for i, one in enumerate(frequent) if one == (kind == 0)]
        if chosen:
            x, y = points[chosen].T
            plot.scatter(x, y, s=12, color=COLOURS[kind], label=label, marker="os"[kind])
        for i in chosen:
            plot.annotate(words[i], tuple(points[i]), xytext=(3, 2), textcoords="offset points",
                          fontsize=8, color=COLOURS[kind], style=("normal", "italic")[kind],
                          parse_math=False)
    plot.set(xlabel=axes[0], ylabel=axes[1])
    finish(figure, plot, path)
