"""Ensembles: several translators that are searched as one.

Source: thesis section 2.3.2, which averages the models' distributions at each step, and Sennrich
(2016), who averages log-probabilities (erratum 12). The members may have any architecture. They
share the target vocabulary and read the same source ids. Search, sampling and force-decoding use an
ensemble like a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import backend
from attention.joint_alignment import alignment_columns, side_by_side
from backend import Array
from backend.topk import log_sum_exp, row_chunks
from nmt.data.batches import Batch, Side
from nmt.models.contract import Losses, Searchable
from nmt.search.force import force_decode

AVERAGES = ("probabilities", "logs")


class EnsembleCache(NamedTuple):
    losses: Losses
    state: None = None


class Ensemble(Searchable):
    """Models whose predictions are averaged.

    An ensemble's parameters are those of its members in one mapping, named `<number>/<name>` from 0
    (`joined`). Its state is the list of its members' states.
    """

    def __init__(self, members: Sequence[Searchable], average: str = "probabilities") -> None:
        """members: at least one; all count down, or none. average: "probabilities" (thesis) or
        "logs" (Sennrich). Raises ValueError for any other value."""
        if average not in AVERAGES:
            raise ValueError(f"average: expected one of {', '.join(AVERAGES)}; got {average!r}")
        self.members, self.average = tuple(members), average
        self.counts_down = members[0].counts_down

    @staticmethod
    def joined(parameters: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """The members' parameters, in their order, as one mapping. Nothing is copied."""
        return {f"{number}/{name}": array for number, member in enumerate(parameters)
                for name, array in member.items()}

    @staticmethod
    def divided(parameters: Mapping[str, Array], count: int) -> list[dict[str, Array]]:
        """The parameters of each of `count` members, from the mapping that `joined` returned."""
        members: list[dict[str, Array]] = [{} for _ in range(count)]
        for name, array in parameters.items():
            number, _, short = name.partition("/")
            members[int(number)][short] = array
        return members

    def encode(self, parameters: Mapping[str, Array], sources: tuple[Side, ...],
               rows: int) -> list[Any]:
        """Each member's state of the sources."""
        return [model.encode(parameters_of, sources, rows)
                for model, parameters_of in self._with_parameters(parameters)]

    def step(self, parameters: Mapping[str, Array], state: list[Any],
             tokens: np.ndarray) -> tuple[Array, list[Any], Array | None]:
        """Logits (N, V) of the averaged prediction, the new states, and the mean alignment of the
        members that have one."""
        steps = self._steps(parameters, state, tokens)
        aligned = [alignment for _, _, alignment in steps if alignment is not None]
        return (self._averaged(steps), [after for _, after, _ in steps],
                mean_alignment(aligned) if aligned else None)

    def lengths(self, state: list[Any]) -> Array:
        """Logits (B, L) of the averaged prediction of the length; all members count down."""
        return self._average([model.lengths(member_state)  # type: ignore[attr-defined]
                              for model, member_state in zip(self.members, state, strict=True)])

    def counting(self, state: list[Any], sentences: np.ndarray, lengths: np.ndarray) -> list[Any]:
        """Each member's state for counting down from these lengths."""
        return [model.counting(member_state, sentences, lengths)  # type: ignore[attr-defined]
                for model, member_state in zip(self.members, state, strict=True)]

    def _steps(self, parameters: Mapping[str, Array], state: list[Any],
               tokens: np.ndarray) -> list[tuple[Array, Any, Array | None]]:
        """Each member's step."""
        return [model.step(parameters_of, member_state, tokens)
                for (model, parameters_of), member_state in zip(
                    self._with_parameters(parameters), state, strict=True)]

    def _averaged(self, steps: Sequence[tuple[Array, Any, Array | None]]) -> Array:
        """The mean of the members' predictions."""
        return self._average([logits for logits, _, _ in steps])

    def _average(self, logits: Sequence[Array]) -> Array:
        """The mean of predictions (N, V)."""
        average = mean_of_probabilities if self.average == "probabilities" else mean_of_logs
        return average(logits)

    def select(self, state: list[Any], rows: np.ndarray, sentences: np.ndarray) -> list[Any]:
        """Each member keeps the same rows and sentences."""
        return [model.select(member_state, rows, sentences)
                for model, member_state in zip(self.members, state, strict=True)]

    def loss(self, parameters: Mapping[str, Array], batch: Batch) -> tuple[float, EnsembleCache]:
        """-log p of the batch's targets, in nats, summed over words; there is no backward."""
        forced = force_decode(self, parameters, batch)
        loss = -sum(hypothesis.log_probability for hypothesis in forced)
        return loss, EnsembleCache(Losses(loss))

    def spelling(self, parameters: Mapping[str, Array], batch: Batch) -> tuple[Ensemble, list[Any]]:
        """As `Hybrid.spelling`. Each member spells from its own seed, and their predictions are
        averaged for each character. All members are hybrid models."""
        spellers = [model.spelling(parameters_of, batch)  # type: ignore[attr-defined]
                    for model, parameters_of in self._with_parameters(parameters)]
        return (Ensemble([speller for speller, _ in spellers], self.average),
                [seeds for _, seeds in spellers])

    def _with_parameters(
        self, parameters: Mapping[str, Array]
    ) -> list[tuple[Searchable, dict[str, Array]]]:
        """Each member with its own parameters."""
        return list(zip(self.members, self.divided(parameters, len(self.members)), strict=True))


class SourcesState(NamedTuple):
    """The states of the members of a `SourcesEnsemble`."""

    states: list[Any]
    columns: Array  # (B, W), of joint alignments


class SourcesEnsemble(Ensemble):
    """Models that read a source each and predict the same words: translating several sources
    without a model that was trained on them (Sennrich's slides; Zoph and Knight, 2016)."""

    def encode(self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int) -> Any:
        """Each member's state of its source."""
        states = [model.encode(parameters_of, (side,), rows)
                  for (model, parameters_of), side in zip(
                      self._with_parameters(parameters), sources, strict=True)]
        columns = alignment_columns([side.lengths for side in sources],
                                    [len(side.ids) for side in sources])
        return SourcesState(states, backend.to_device(columns))

    def step(self, parameters: Mapping[str, Array], state: Any,
             tokens: np.ndarray) -> tuple[Array, Any, Array | None]:
        """As the ensemble's step. The alignment is joint; it is None unless all members align."""
        steps = self._steps(parameters, state.states, tokens)
        aligned = [alignment for _, _, alignment in steps if alignment is not None]
        joint = None
        if len(aligned) == len(steps):
            B, N = len(state.columns), len(tokens)
            joint = side_by_side([alignment.reshape(B, N // B, -1) for alignment in aligned],
                                 state.columns).reshape(N, -1)
        states = [after for _, after, _ in steps]
        return self._averaged(steps), state._replace(states=states), joint

    def select(self, state: Any, rows: np.ndarray, sentences: np.ndarray) -> Any:
        """Keep these rows and sentences."""
        columns = state.columns
        if len(sentences) != len(columns):
            columns = columns[backend.to_device(sentences)]
        return SourcesState(super().select(state.states, rows, sentences), columns)


def mean_of_probabilities(logits: Sequence[Array]) -> Array:
    """log of the mean over M models of softmax(logits_m).

    Source: thesis section 2.3.2: "different distributions are then averaged".

    logits: M arrays (N, V), nats. Returns (N, V), normalised. It is computed relative to the
    largest value over the models, so that no word's probability underflows to zero.
    """
    xp = backend.array_module(*logits)
    normalisers = [log_sum_exp(logits_m, logits_m.max(axis=1)) for logits_m in logits]
    out = xp.empty_like(logits[0])
    for rows in row_chunks(out):
        log_p = xp.stack([logits_m[rows] - normaliser[rows, None]
                          for logits_m, normaliser in zip(logits, normalisers, strict=True)])
        top = log_p.max(axis=0)                            # (rows of the chunk, V)
        log_p -= top
        xp.exp(log_p, out=log_p)
        out[rows] = xp.log(log_p.mean(axis=0)) + top       # log 1/M sum of p_m  (2.3.2 ensemble)
    return out


def mean_of_logs(logits: Sequence[Array]) -> Array:
    """The mean over M models of log softmax(logits_m).

    Source: Sennrich (2016): log P(y_i) = 1/M sum of log P_m(y_i).

    logits: M arrays (N, V), nats. Returns (N, V), up to a constant for each row: search normalises
    the geometric mean, like all logits.
    """
    return sum(logits[1:], start=logits[0]) / len(logits)  # 1/M sum of log p_m  (Sennrich ensemble)


def mean_alignment(alignments: Sequence[Array]) -> Array:
    """The mean of alignments (N, S_m), cut to the narrowest, since further columns are padding."""
    width = min(alignment.shape[1] for alignment in alignments)
    return sum((alignment[:, :width] for alignment in alignments[1:]),
               start=alignments[0][:, :width]) / len(alignments)
