"""Translators of one source each that translate several sources of a sentence together.

Nothing is trained. Each model reads its own source of the same sentence, all write the same words,
and their predictions are averaged (Sennrich's slides; `SourcesEnsemble`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from nmt.data.reading import SourceReader
from nmt.data.sources import tokenise_each
from nmt.members import check_source_members
from nmt.search.combine import SourcesEnsemble
from nmt.system import System


@dataclass
class JointSources(System):
    """The system of several translators, in the order of their sources."""

    members: Sequence[System] = ()

    @classmethod
    def of(cls, names: Sequence[str], systems: Sequence[System], average: str) -> JointSources:
        """The joint system of systems that write the same words.

        average: see `Ensemble`. The recipe, for search, batches and scores, is that of the first
        member without attention, or else of the first member; the limit on sources is the smallest
        of the members' limits. Raises UserError naming a system that does not fit.
        """
        check_source_members(names, systems)
        model = SourcesEnsemble([system.model for system in systems], average)
        return cls._joined(systems, model, attends=False, members=tuple(systems))

    @classmethod
    def open_each(cls, directories: Sequence[Path], average: str, which: str) -> JointSources:
        """The joint system of several run directories. Errors as `open` and `of`."""
        systems = [System.open(directory, which) for directory in directories]
        return cls.of([str(directory) for directory in directories], systems, average)

    @cached_property
    def readers(self) -> tuple[SourceReader, ...]:
        """The readers of all members, in the order of their sources."""
        return tuple(reader for member in self.members for reader in member.readers)

    @cached_property
    def cut_source(self) -> Callable[[str], list[str]]:
        """The function that tokenises a text with a line for each source."""
        return partial(tokenise_each, [member.cut_source for member in self.members])
