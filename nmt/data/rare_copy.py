"""The training text twice: as it is, and with its rare words as `<unk>` (Nguyen 3.1.2.2).

A vocabulary of all words, or pieces, of the training text leaves no unknown word to learn from. The
second copy has some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import cast

from nmt.data.batches import IdPair
from nmt.data.stored import Lazy
from nmt.data.vocabulary import UNKNOWN

Ids = Sequence[int]


class WithRareCopy(Lazy[IdPair]):
    """N pairs of ids, and the same once more with the ids that are rare on their side as `<unk>`.

    Arguments: pairs, read once to count; least, an id with fewer occurrences on its side is rare.
    """

    def __init__(self, pairs: Sequence[IdPair], least: int) -> None:
        self._pairs = pairs
        self._rare = [_rare((cast(Ids, pair[side]) for pair in pairs), least) for side in (0, 1)]

    def __len__(self) -> int:
        return 2 * len(self._pairs)

    def item(self, place: int) -> IdPair:
        """The pair at a position; from N on, the copies."""
        copy, place = divmod(place, len(self._pairs))
        source, target = self._pairs[place]
        if not copy:
            return source, target
        return _without(cast(Ids, source), self._rare[0]), _without(target, self._rare[1])


def _rare(sentences: Iterable[Ids], least: int) -> set[int]:
    """The ids that occur fewer than `least` times."""
    counts = Counter(chain.from_iterable(sentences))
    return {i for i, n in counts.items() if n < least}


def _without(ids: Ids, rare: Collection[int]) -> list[int]:
    """The ids, the rare ones as `<unk>`."""
    return [UNKNOWN if i in rare else i for i in ids]
