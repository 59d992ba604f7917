"""Points of a map of words, and its picture."""

import importlib.util

import numpy as np
import pytest

from backend.errors import UserError
from nmt.analysis.words_map import (
    draw_words,
    label_offsets,
    principal_components,
    t_sne,
    unit_length,
)

RNG = np.random.default_rng(2)


def test_principal_components_of_a_plane() -> None:
    """Points of a plane in five dimensions keep their distances; the wider axis comes first."""
    flat = RNG.normal(size=(30, 2)) * [1.0, 6.0]
    axes, _ = np.linalg.qr(RNG.normal(size=(5, 2)))
    points, shares = principal_components(flat @ axes.T + RNG.normal(size=5))
    between = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(between, np.linalg.norm(flat[:, None] - flat[None], axis=2))
    assert points[:, 0].var() > points[:, 1].var()
    np.testing.assert_allclose(shares, points.var(axis=0) / flat.var(axis=0).sum())
    assert shares.sum() == pytest.approx(1)
    assert (points.max(axis=0) >= -points.min(axis=0)).all()  # the farthest is positive


def test_few_words() -> None:
    points, shares = principal_components(np.array([[1.0, 2.0], [1.0, 4.0]]))
    np.testing.assert_allclose(np.abs(points), [[1, 0], [1, 0]], atol=1e-12)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)
    points, shares = principal_components(np.ones((3, 4)))
    assert not points.any() and not shares.any()


def test_t_sne_keeps_neighbours_together() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra `map`)")
    centres = 20 * RNG.normal(size=(3, 8))
    points = t_sne(np.repeat(centres, 10, axis=0) + 0.1 * RNG.normal(size=(30, 8)))
    assert points.shape == (30, 2)
    groups = points.reshape(3, 10, 2)
    within = np.linalg.norm(groups - groups.mean(axis=1, keepdims=True), axis=2).max()
    means = groups.mean(axis=1)
    assert within < min(np.linalg.norm(means[i] - means[j]) for i in range(3) for j in range(i))
    with pytest.raises(UserError, match="at least four for t-SNE, got 3"):
        t_sne(np.zeros((3, 8)))


def test_t_sne_without_scikit_learn(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"t-SNE: scikit-learn is not installed .*\[map\]"):
        t_sne(np.zeros((9, 2)))


def test_labels_avoid_points_and_each_other() -> None:
    """The second of two neighbouring labels moves; a label without neighbours is to the right."""
    places = np.array([[0.0, 0.0], [2.0, 3.0], [200.0, 0.0]])
    widths = np.array([30.0, 30.0, 30.0])
    boxes = [np.concatenate([place + offset, place + offset + (30, 8)])
             for place, offset in zip(places, label_offsets(places, widths, 8.0), strict=True)]
    for i, box in enumerate(boxes):
        assert not ((places > box[:2]) & (places < box[2:])).all(axis=1).any()
        assert all((box[:2] >= other[2:]).any() or (box[2:] <= other[:2]).any()
                   for other in boxes[:i])
    assert (boxes[2][:2] > places[2]).all()


def test_directions_have_length_one() -> None:
    directions = unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(directions, [[0.6, 0.8], [0.0, 0.0]])


def test_the_picture_names_every_word(tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    named = []
    annotate = Axes.annotate

    def listen(self, text, xy, **how):
        named.append((text, xy, how["color"]))
        return annotate(self, text, xy, **how)

    monkeypatch.setattr(Axes, "annotate", listen)
    points = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    draw_words(["a$b", "c", "d"], points, [True, False, True], ["x", "y"], tmp_path / "map.png")
    assert sorted(named) == [("a$b", (0, 1), "tab:blue"), ("c", (2, 3), "tab:red"),
                             ("d", (4, 5), "tab:blue")]
    assert (tmp_path / "map.png").stat().st_size > 5000
    with pytest.raises(UserError, match="cannot be written"):
        draw_words(["a"], points[:1], [True], ["x", "y"], tmp_path / "none" / "map.png")
