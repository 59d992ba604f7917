"""Maps of words: their vectors in two dimensions (Luong, 2016, Figure 5.4).

NumPy computes principal components; scikit-learn (the extra `map`) computes the figure's Barnes-Hut
t-SNE (van der Maaten, 2013).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.cells import cell_len

from backend.errors import UserError, missing
from nmt.evaluation.pictures import finish, new_axes

PERPLEXITY = 30.0  # t-SNE's usual value; for few points it is a third of their number
KINDS = ("word-based", "character-based")  # the colours of Figure 5.4
COLOURS = ("tab:blue", "tab:red")
FONT = 8.0  # points
LETTER = 0.64  # width of a letter, relative to the font's size


def principal_components(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points (N, 2) in the plane of most variance, and each axis's share of the variance.

    vectors: (N, E). The sign of each axis is such that the most distant word is positive.
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


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """The vectors (N, E) scaled to length 1; zero vectors are unchanged."""
    lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    return vectors / np.where(lengths > 0, lengths, 1.0)


def t_sne(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """The points (N, 2) of Barnes-Hut t-SNE, starting at the principal components.

    vectors: (N, E), at least four. Raises UserError without scikit-learn, or for fewer.
    """
    require_sklearn("t-SNE")
    if len(vectors) < 4:
        raise UserError(f"words: expected at least four for t-SNE, got {len(vectors)}")
    from sklearn.manifold import TSNE

    start, _ = principal_components(vectors)
    spread = start[:, 0].std()
    method = TSNE(perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3), random_state=seed,
                  init=1e-4 * start / (spread or 1.0))
    return np.asarray(method.fit_transform(vectors), float)


def require_sklearn(request: str) -> None:
    """Raise UserError, naming the request, unless scikit-learn is installed."""
    if importlib.util.find_spec("sklearn") is None:
        raise UserError(f"{request}: {missing('scikit-learn', 'map')}")


def draw_words(
    words: Sequence[str], points: np.ndarray, frequent: Sequence[bool], axes: Sequence[str],
    path: Path,
) -> None:
    """Draw words at their points: words of a table in blue, words of characters in red italics.

    points: (N, 2). frequent: whether each word's vector is a row of the table. axes: the labels of
    the axes. Raises UserError without matplotlib.
    """
    figure, plot = new_axes(path, 9.6, 7.2)
    for kind, label in enumerate(KINDS):
        chosen = [i for i, is_frequent in enumerate(frequent) if is_frequent == (kind == 0)]
        if chosen:
            x, y = points[chosen].T
            plot.scatter(x, y, s=12, color=COLOURS[kind], label=label, marker="os"[kind])
    plot.set(xlabel=axes[0], ylabel=axes[1])
    plot.margins(0.08, 0.05)
    if not any(axes):
        plot.tick_params(labelbottom=False, labelleft=False)
    figure.draw_without_rendering()                        # the axes have their final position now
    places = plot.transData.transform(points) * 72 / figure.dpi
    widths = np.array([LETTER * FONT * cell_len(word) for word in words])
    for i, offset in enumerate(label_offsets(places, widths, FONT)):
        kind = 0 if frequent[i] else 1
        plot.annotate(words[i], tuple(points[i]), xytext=tuple(offset), fontsize=FONT,
                      textcoords="offset points", color=COLOURS[kind],
                      style=("normal", "italic")[kind], parse_math=False)
    finish(figure, plot, path, "Vectors of words")


def label_offsets(places: np.ndarray, widths: np.ndarray, height: float) -> np.ndarray:
    """The positions of labels relative to their points, (N, 2).

    A label takes the first of six positions where it overlaps no point and no earlier label, or the
    one where it overlaps fewest. places: (N, 2) of the points. widths: (N,) of the labels; height:
    of a label; all in the same unit.
    """
    gap, offsets = 0.35 * height, []
    boxes: list[np.ndarray] = []
    for place, width in zip(places, widths, strict=True):
        right, left, middle = gap, -width - gap, -width / 2
        tried = [(right, gap), (right, -height - gap), (left, gap), (left, -height - gap),
                 (middle, 2 * gap), (middle, -height - 2 * gap)]
        tried_boxes = [np.array([x, y, x + width, y + height]) + np.tile(place, 2)
                       for x, y in tried]
        best = int(np.argmin([_covered(box, places, boxes) for box in tried_boxes]))
        offsets.append(tried[best])
        boxes.append(tried_boxes[best])
    return np.array(offsets)


def _covered(box: np.ndarray, places: np.ndarray, boxes: Sequence[np.ndarray]) -> int:
    """How many points and boxes a box (left, bottom, right, top) overlaps."""
    points = int(((places > box[:2]) & (places < box[2:])).all(axis=1).sum())
    others = np.array(boxes).reshape(-1, 4)
    return points + int(((others[:, :2] < box[2:]) & (others[:, 2:] > box[:2])).all(axis=1).sum())
