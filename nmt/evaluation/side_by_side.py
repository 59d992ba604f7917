"""Translations of several systems side by side, before and after their unknown words are replaced
or spelled (Luong, 2016, section 5.5.3 and Table 5.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len

Outputs = Mapping[str, Sequence[str]]  # stage, of which "" is the first -> a text for each line


def side_by_side(
    sources: Sequence[str], references: Sequence[str], systems: Mapping[str, Outputs]
) -> Iterator[str]:
    """Lines of text with each sentence's number, from 1, its source, its reference and the systems'
    outputs.

    A later stage of a system is left out if it changes nothing. systems: outputs by name.
    """
    labels = ["source", "reference", *systems, *(f"  {stage}" for outputs in systems.values()
                                                 for stage in outputs if stage)]
    width = max(map(cell_len, labels)) + 2
    for i, pair in enumerate(zip(sources, references, strict=True)):
        yield str(i + 1)
        for label, text in [*zip(("source", "reference"), pair, strict=True), *_stages(systems, i)]:
            yield (label + " " * (width - cell_len(label)) + text).rstrip()
        yield ""


def _stages(systems: Mapping[str, Outputs], i: int) -> Iterator[tuple[str, str]]:
    """The outputs of each system for sentence i, stage by stage."""
    for name, outputs in systems.items():
        first, *later = outputs.items()
        yield name, first[1][i]
        for stage, texts in later:
            if texts[i] != first[1][i]:
                yield f"  {stage}", texts[i]
