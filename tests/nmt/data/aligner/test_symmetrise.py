"""Joining two directions, on a pair small enough to do by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.aligner.symmetrise import (
    SYMMETRISATIONS,
    grow_diag,
    grow_diag_final_and,
    intersection,
    swapped,
    union,
)

# Both directions have (0, 0). (1, 1) and then (2, 1) are its neighbours, (4, 4) has no neighbour,
# and (0, 3) links words 0 and 3, of which only the target word is free.
FORWARD = [(0, 0), (1, 1), (0, 3), (4, 4)]
BACKWARD = [(0, 0), (2, 1), (4, 4)]


def test_intersection_and_union() -> None:
    assert intersection(FORWARD, BACKWARD) == [(0, 0), (4, 4)]
    assert union(FORWARD, BACKWARD) == [(0, 0), (0, 3), (1, 1), (2, 1), (4, 4)]


def test_growing_takes_neighbours_of_neighbours() -> None:
    # (1, 1) is diagonal to (0, 0); (2, 1) is beside (1, 1) and its source word is free.
    assert grow_diag(FORWARD, BACKWARD) == [(0, 0), (1, 1), (2, 1), (4, 4)]


def test_growing_stops_where_both_words_have_links() -> None:
    # (0, 1) is beside (0, 0), but source word 0 and target word 1 both have links.
    assert grow_diag([(0, 0), (1, 1)], [(0, 0), (1, 1), (0, 1)]) == [(0, 0), (1, 1)]
    assert grow_diag([(0, 0)], [(0, 0), (0, 1)]) == [(0, 0), (0, 1)]


def test_final_and_needs_both_words_free() -> None:
    assert grow_diag_final_and(FORWARD, BACKWARD) == grow_diag(FORWARD, BACKWARD)  # (0, 3): no
    assert grow_diag_final_and([*FORWARD, (6, 2)], BACKWARD) \
        == sorted([*grow_diag(FORWARD, BACKWARD), (6, 2)])


def test_final_and_asks_the_forward_direction_first() -> None:
    assert grow_diag_final_and([(0, 2)], [(3, 2)]) == [(0, 2)]
    assert grow_diag_final_and([(0, 2)], [(3, 3)]) == [(0, 2), (3, 3)]


def test_without_any_link_in_common_nothing_grows() -> None:
    assert grow_diag([(0, 0)], [(1, 1)]) == []


def literal(forward, backward, final):
    """Koehn et al. (2005), loop by loop; e is the target word, f the source word."""
    neighbouring = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
    e2f, f2e = {(t, s) for s, t in forward}, {(t, s) for s, t in backward}
    alignment, words = e2f & f2e, range(8)

    def aligned(place, side):
        return any(point[side] == place for point in alignment)

    added = True
    while added:
        added = False
        for e in words:
            for f in words:
                if (e, f) not in alignment:
                    continue
                for de, df in neighbouring:
                    new = (e + de, f + df)
                    if (not aligned(new[0], 0) or not aligned(new[1], 1)) and new in e2f | f2e:
                        alignment.add(new)
                        added = True
    for a in (e2f, f2e) if final else ():
        for e in words:
            for f in words:
                if not aligned(e, 0) and not aligned(f, 1) and (e, f) in a:
                    alignment.add((e, f))
    return sorted((f, e) for e, f in alignment)


DIRECTION = st.dictionaries(st.integers(0, 7), st.integers(0, 7))


@given(DIRECTION, DIRECTION)
def test_as_the_published_algorithm(forward, backward) -> None:
    directions = [(s, t) for t, s in forward.items()], list(backward.items())
    assert grow_diag(*directions) == literal(*directions, final=False)
    assert grow_diag_final_and(*directions) == literal(*directions, final=True)


@pytest.mark.parametrize("name", SYMMETRISATIONS)
def test_each_lies_within_the_union(name) -> None:
    links = SYMMETRISATIONS[name](FORWARD, BACKWARD)
    assert links == sorted(set(links)) and set(links) <= set(union(FORWARD, BACKWARD))
    assert SYMMETRISATIONS[name](FORWARD, FORWARD) == sorted(FORWARD)


def test_directions_alone() -> None:
    assert SYMMETRISATIONS["forward"](FORWARD, BACKWARD) == sorted(FORWARD)
    assert SYMMETRISATIONS["backward"](FORWARD, BACKWARD) == sorted(BACKWARD)
    assert swapped(FORWARD) == [(0, 0), (1, 1), (3, 0), (4, 4)]
