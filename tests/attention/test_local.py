"""Windows against their definition; the jump at their edge; what they cost; the known lengths."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw

from attention.attend import memory_forward
from attention.local import make_window, scatter_window
from attention.look import alignment_of, look_forward
from attention.scores import CONTENT, SCORES, score_weights
from attention.way import Way
from grads.derivations.attention_step import Way as LiteralWay
from grads.derivations.attention_step import align_in_a_way, weights_of
from lstm.recurrent import make_padding
from lstm.parameters import Scheme

H, Q = 3, 4
WAYS = [
    *(Way(score, length=4) for score in SCORES),
    *(Way(score, window, D, renormalise=again, reverse=reverse)
      for score in CONTENT for reverse in (False, True) for D in (1, 2, 9)
      for window, again in (("local-m", False), ("local-p", False), ("local-p", True))),
]


def make(way, lengths, dtype=np.float64, scale=0.7):
    """h (B, Q, H), states (S, B, He), parameters, memory."""
    rng, B, S = np.random.default_rng(4), len(lengths), max(lengths)
    He = H if way.score == "dot" else 4
    h, states = draw(rng, (B, Q, H), dtype, scale), draw(rng, (S, B, He), dtype, scale)
    weights = score_weights(way, "attention", H, He, Scheme())
    parameters = {name: draw(rng, w.shape, dtype, scale) for name, w in weights.items()}
    padding = make_padding(np.array(lengths), S)
    return h, states, parameters, memory_forward(states, padding, way, parameters, "attention")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_look_is_the_derivation(way, dtype):
    """Alignments and contexts of steps 2 to 5 in sentences of 7, 3 and 1 words; by steps too."""
    lengths = (7, 3, 1)
    h, states, parameters, memory = make(way, lengths, dtype)
    c, seen = look_forward(h, memory, parameters, 2)
    a = alignment_of(seen, memory)
    literal = LiteralWay(way.score, way.window, way.D, way.reverse, way.renormalise)
    for b, length in enumerate(lengths):
        h_bar = states[:length, b].T
        assert not a[b, :, length:].any()
        for q in range(Q):
            expected = align_in_a_way(
                literal, h[b, q][:, None], h_bar, weights_of(parameters), 2 + q)[:, 0]
            size = max(1.0, np.abs(expected).max())  # complex weights can be large
            assert np.abs(a[b, q, :length] - expected).max() < 1e-13 * size
            assert np.abs(c[b, q] - h_bar @ expected).max() < 1e-13 * size
    for q in range(Q):
        alone, _ = look_forward(h[:, q : q + 1], memory, parameters, 2 + q)
        assert_close(alone[:, 0], c[:, q])
        together, _ = look_forward(h, memory, parameters, 2 + q, together=True)
        assert_close(together[:, q], c[:, q])


@pytest.mark.parametrize("centre, D, expected", [
    (2.0, 1, [1, 2, 3]), (2.5, 1, [2, 3]), (-0.8, 2, [0, 1]), (4.9, 1, [4, 5]),
    (5.0, 2, [3, 4, 5]), (7.0, 1, []), (-3.0, 1, []), (2.0, 9, [0, 1, 2, 3, 4, 5]),
])
def test_a_window_is_the_columns_of_its_interval(centre, D, expected):
    window = make_window(np.array([[centre]]), np.array([6.0]), 8, D)
    assert window.out.shape[2] == min(2 * D + 1, 8)
    rows = np.arange(8)[None, None] if window.rows is None else window.rows
    assert (window.rows is None) == (2 * D + 1 >= 8)  # all of the source, which nobody gathers
    assert rows[~window.out].tolist() == expected
    np.testing.assert_allclose(window.offset[~window.out], np.array(expected) - centre)
    assert len(set(rows.ravel())) == rows.size  # nothing is gathered twice
    assert rows.min() >= 0 and rows.max() < 8


def test_scattering_adds_where_windows_meet():
    total = np.zeros((1, 3, 1))
    scatter_window(total, np.ones((1, 2, 2, 1)), np.array([[[0, 1], [1, 2]]]))
    np.testing.assert_array_equal(total[0, :, 0], [1, 2, 1])


@pytest.mark.parametrize("D", [1, 2])
def test_local_p_jumps_where_its_position_passes_an_integer(D):
    """At the edge a state enters as another leaves, and a_t with them; inside it does not."""
    way = Way("general", "local-p", D)
    _, _, parameters, memory = make(way, (7,))
    parameters["attention.W_p"] = np.eye(H)
    parameters["attention.v_p"] = np.array([1.0, 0.0, 0.0])

    def at(p):
        """The alignment with p_t = p, by the h_t that predicts it."""
        h = np.zeros((1, 1, H))
        h[0, 0] = np.arctanh(np.log(p / (7 - p))), 0.3, -0.2
        _, seen = look_forward(h, memory, parameters)
        assert_close(7.0 * seen.ratio, np.array([[p]]))
        return alignment_of(seen, memory)[0, 0]

    below, above = at(3 - 1e-9), at(3 + 1e-9)
    assert below[3 - D - 1] > 0.01 and above[3 - D - 1] == 0.0   # word 3 - D leaves
    assert below[3 + D - 1] == 0.0 and above[3 + D - 1] > 0.01   # word 3 + D enters
    assert np.abs(at(3.5 + 1e-9) - at(3.5 - 1e-9)).max() < 1e-8


@pytest.mark.parametrize("score", CONTENT)
@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_a_step_computes_with_its_window_only(score, window):
    """What a step makes has the window's size in a source of any length."""
    made = []
    for S in (20, 200):
        way = Way(score, window, D=2)
        h, _, parameters, memory = make(way, (S, S))
        _, seen = look_forward(h, memory, parameters)
        arrays = [x for x in (*seen, *(seen.near or ())) if x is not None and hasattr(x, "shape")]
        assert not any(S in x.shape for x in arrays)
        made.append([x.shape for x in arrays])
    assert made[0] == made[1]


def test_a_source_longer_than_the_location_knows():
    """Words behind L_max get no weight; those before it share all of it, as if they were all."""
    way = Way("location", length=3)
    h, states, parameters, memory = make(way, (6, 2))
    c, seen = look_forward(h, memory, parameters)
    a = alignment_of(seen, memory)
    assert a.shape == (2, Q, 6) and (a[0, :, :3] > 0).all() and not a[0, :, 3:].any()
    np.testing.assert_allclose(a.sum(axis=2), 1.0)
    padding = make_padding(np.array((3, 2)), 3)
    short = memory_forward(states[:3], padding, way, parameters, "attention")
    assert_close(look_forward(h, short, parameters)[0], c)


def test_an_empty_window_gives_no_context():
    """local-m at a step far behind the end of one sentence, inside another."""
    h, _, parameters, memory = make(Way("general", "local-m", D=1), (9, 2))
    with np.errstate(all="raise", under="ignore"):
        c, seen = look_forward(h, memory, parameters, 5)
    assert not c[1].any() and not seen.a[1].any()
    assert c[0].all()


@pytest.mark.parametrize("way", [Way("general", "local-m", 2), Way("concat"), Way("location")])
def test_padding_is_not_looked_at(way):
    h, states, parameters, memory = make(way, (5, 3, 1))
    c, _ = look_forward(h, memory, parameters)
    padding = make_padding(np.array((5, 3, 1)), 5)
    states[padding.dead[:, :, 0]] = 1e200
    again, _ = look_forward(h, memory_forward(states, padding, way, parameters, "attention"),
                            parameters)
    np.testing.assert_array_equal(c, again)
