"""Windows against their definition, the jump at their edge, their cost, and the lengths L_max."""

from __future__ import annotations

import numpy as np
import pytest
from attending import H, Q, make, only
from literal import assert_close

from attention.attention import memory_forward
from attention.scores import CONTENT, Variant
from attention.window import make_window, scatter_window


@pytest.mark.parametrize("p, D, expected", [
    (2.0, 1, [1, 2, 3]), (2.9, 1, [1, 2, 3]), (0.2, 2, [0, 1, 2]), (4.9, 1, [3, 4, 5]),
    (5.0, 2, [3, 4, 5]), (6.0, 1, [4, 5]), (9.0, 1, [4, 5]), (2.0, 9, [0, 1, 2, 3, 4, 5]),
])
def test_a_window_is_the_words_around_its_position(p, D, expected):
    window = make_window(np.array([[p]]), np.array([6.0]), 8, D)
    assert window.mask.shape[2] == min(2 * D + 1, 8)
    rows = np.arange(8)[None, None] if window.rows is None else window.rows
    assert (window.rows is None) == (2 * D + 1 >= 8)  # all of the source, which is not gathered
    assert rows[~window.mask].tolist() == expected
    np.testing.assert_allclose(window.offset[~window.mask], np.array(expected) - p)
    assert len(set(rows.ravel())) == rows.size  # nothing is gathered twice
    assert rows.min() >= 0 and rows.max() < 8


def test_scattering_adds_where_windows_meet():
    total = np.zeros((1, 3, 1))
    scatter_window(total, np.ones((1, 2, 2, 1)), np.array([[[0, 1], [1, 2]]]))
    np.testing.assert_array_equal(total[0, :, 0], [1, 2, 1])


@pytest.mark.parametrize("D", [1, 2])
def test_local_p_jumps_where_its_position_passes_an_integer(D):
    """At an integer one state enters the window as another leaves, so a_t jumps. Between integers
    a_t does not jump."""
    variant = Variant("general", "local-p", D)
    _, states, parameters, _ = make(variant, (7,))
    parameters["attention.W_p"] = np.eye(H)
    parameters["attention.v_p"] = np.array([1.0, 0.0, 0.0])
    memory = memory_forward(states, np.full(states.shape[1], len(states)), variant, parameters,
                            "attention")

    def at(p):
        """The alignment with p_t = p, by the h_t that predicts it."""
        h = np.zeros((1, 1, H))
        h[0, 0] = np.arctanh(np.log(p / (7 - p))), 0.3, -0.2
        _, cache = memory.attend(h)
        assert_close(7.0 * cache.position.sigmoid, np.array([[p]]))
        return memory.alignment(cache)[0, 0]

    below, above = at(3 - 1e-9), at(3 + 1e-9)
    assert below[3 - D - 1] > 1e-4 and above[3 - D - 1] == 0.0   # word 3 - D - 1 leaves
    assert below[3 + D] == 0.0 and above[3 + D] > 0.01           # word 3 + D enters
    assert np.abs(at(3.5 + 1e-9) - at(3.5 - 1e-9)).max() < 1e-8


@pytest.mark.parametrize("score", CONTENT)
@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_a_step_computes_with_its_window_only(score, window):
    """A step's arrays have the size of the window, whatever the length of the source."""
    shapes = []
    for S in (20, 200):
        h, _, _, memory = make(Variant(score, window, D=2), (S, S))
        _, cache = memory.attend(h)
        assert not any(S in array.shape for array in only(cache))
        shapes.append([array.shape for array in only(cache)])
    assert shapes[0] == shapes[1]


def test_a_source_longer_than_the_location_knows():
    """Words after L_max get no weight; the weights of a short sentence are not renormalised."""
    variant = Variant("location", length=3)
    h, states, parameters, memory = make(variant, (6, 2))
    c, cache = memory.attend(h)
    a = memory.alignment(cache)
    assert a.shape == (2, Q, 6) and (a[0, :, :3] > 0).all() and not a[0, :, 3:].any()
    np.testing.assert_allclose(a[0].sum(axis=1), 1.0)
    assert (a[1].sum(axis=1) < 1.0).all()  # its third weight is cut off, without renormalisation
    short = memory_forward(states[:3], np.array((3, 2)), variant, parameters, "attention")
    assert_close(short.attend(h)[0], c)


def test_after_the_end_the_window_is_around_the_last_word():
    """local-m at steps far behind the end of one sentence, inside another: p_t = min(t, S)."""
    h, _, _, memory = make(Variant("general", "local-m", D=1), (9, 2))
    h[:, 1:] = h[:, :1]
    late, at_end = (memory.alignment(memory.attend(h, t)[1])[1] for t in (5, 2))
    np.testing.assert_array_equal(late, at_end)
    assert (late[:, :2] > 0.0).all() and not late[:, 2:].any()


@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_a_window_inside_a_sentence_has_2_D_and_1_words(window):
    """a_t is in R^(2D + 1) (4.2.2), whatever p_t is."""
    h, _, _, memory = make(Variant("dot", window, D=2), (40,))
    a = memory.alignment(memory.attend(h, 9)[1])
    np.testing.assert_array_equal((a > 0.0).sum(axis=2), 5)


@pytest.mark.parametrize("variant", [
    Variant("location", length=6), Variant("location", length=3), Variant("dot", "local-m", D=1),
    Variant("dot", "local-p", D=1), Variant("general", "local-p", D=1)], ids=str)
def test_a_reversed_source_is_attended_to_at_the_same_written_words(variant):
    """If the words have the same states, they get the same weights, whichever end the encoder began
    at."""
    lengths = (7, 4, 1)
    h, states, parameters, memory = make(variant, lengths)
    back = states.copy()
    for b, length in enumerate(lengths):
        back[:length, b] = states[:length, b][::-1]
    reversed_memory = memory_forward(back, np.array(lengths), variant._replace(reverse=True),
                                     parameters,
                                     "attention")
    (c, cache), (c_other, again) = memory.attend(h, 2), reversed_memory.attend(h, 2)
    np.testing.assert_array_equal(c_other, c)
    np.testing.assert_array_equal(reversed_memory.alignment(again), memory.alignment(cache))
