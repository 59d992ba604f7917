"""Symmetrisation of the alignments of two directions (Och and Ney 2003; Koehn et al. 2005).

Each function takes the links (source word, target word) of both directions for one sentence pair:
in `forward` a target word has at most one source word, in `backward` a source word has at most one
target word. The result is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nmt.data.align import Link

# Neighbours in the order of Koehn et al. (2005), as (source, target) steps.
NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def swapped(links: Iterable[Link]) -> list[Link]:
    """Links with source and target exchanged."""
    return [(target, source) for source, target in links]


def intersection(forward: Iterable[Link], backward: Iterable[Link]) -> list[Link]:
    """The links of both directions: high precision, low recall."""
    return sorted({*forward} & {*backward})


def union(forward: Iterable[Link], backward: Iterable[Link]) -> list[Link]:
    """The links of either direction: low precision, high recall."""
    return sorted({*forward} | {*backward})


def grow_diag(forward: Iterable[Link], backward: Iterable[Link]) -> list[Link]:
    """The intersection, grown by neighbouring links of the union.

    Source: Koehn et al. (2005), GROW-DIAG. A link of the union that neighbours a link, also
    diagonally, is added if its source or its target word has no link yet. This is repeated until
    nothing is added.
    """
    union_links = {*forward} | {*backward}
    links = {*forward} & {*backward}
    _grow(links, union_links)
    return sorted(links)


def grow_diag_final_and(forward: Iterable[Link], backward: Iterable[Link]) -> list[Link]:
    """`grow_diag`, and then links between words that have no link yet.

    Source: Koehn et al. (2005), FINAL-AND. For each direction in turn, a link is added if neither
    its source word nor its target word has a link.
    """
    links = {*grow_diag(forward, backward)}
    sources, targets = _linked(links)
    for direction in (forward, backward):
        for source, target in sorted(direction, key=_by_target):
            if source not in sources and target not in targets:
                links.add((source, target))
                sources.add(source)
                targets.add(target)
    return sorted(links)


def _grow(links: set[Link], union_links: set[Link]) -> None:
    """Add to `links` the links of the union that GROW-DIAG adds."""
    sources, targets = _linked(links)
    scan = sorted(union_links, key=_by_target)
    size = -1
    while size < len(links) < len(union_links):
        size = len(links)
        for source, target in scan:
            if (source, target) not in links:
                continue
            for step in NEIGHBOURS:
                x, y = neighbour = (source + step[0], target + step[1])
                if neighbour in union_links and (x not in sources or y not in targets):
                    links.add(neighbour)
                    sources.add(x)
                    targets.add(y)


def _linked(links: Iterable[Link]) -> tuple[set[int], set[int]]:
    """The source words and the target words that have a link."""
    return {source for source, _ in links}, {target for _, target in links}


def _by_target(link: Link) -> Link:
    """The order in which the published algorithm goes through a sentence pair."""
    return link[1], link[0]


SYMMETRISATIONS: dict[str, Callable[[Iterable[Link], Iterable[Link]], list[Link]]] = {
    "grow-diag-final-and": grow_diag_final_and,
    "grow-diag": grow_diag,
    "intersection": intersection,
    "union": union,
    "forward": lambda forward, backward: sorted(forward),
    "backward": lambda forward, backward: sorted(backward),
}
