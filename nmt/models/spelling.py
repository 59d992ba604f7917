"""The character networks of a hybrid model, which read and write words character by character.

Source: Luong (2016). 5.3.2: a deep LSTM reads c_1 .. c_n and the boundary, from zero states; its
last top state is the vector of a word outside the vocabulary. 5.3.3: another LSTM writes such a
word, from a given hidden state of its first layer; its other initial states are zero. Words come in
groups of similar length (`nmt.data.characters`). A group is a batch of sequences, which
`lstm.stack` runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.rows import RowIndex, add_gradients, check_ids, gather_rows, row_index, sum_rows
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import (
    EmbeddingCache,
    embedding_backward,
    embedding_forward,
    embedding_weight,
)
from lstm.parameters import Scheme, Weight
from lstm.prediction import (
    OutputCache,
    output_backward,
    output_forward,
    output_step,
    output_weights,
)
from lstm.recurrent import make_padding
from lstm.stack import (
    Stack,
    StackCache,
    select_states,
    stack_backward,
    stack_forward,
    stack_step,
    stack_weights,
    zero_state,
)
from nmt.data.batches import Side
from nmt.data.characters import Spelled, unknown_steps
from nmt.data.vocabulary import END
from nmt.models.contract import Gradients, Noise, Searchable


def character_weights(
    prefix: str, stack: Stack, number: int, embedding_size: int, scheme: Scheme
) -> dict[str, Weight]:
    """`{prefix}.W_e` (C, Ec), of C characters, and the stack's `{prefix}.{l}.W`."""
    return {f"{prefix}.W_e": embedding_weight(number, embedding_size, scheme, "character"),
            **stack_weights(prefix, stack, {"x": embedding_size}, scheme)}


def character_sites(
    prefix: str, stack: Stack, embedding_size: int, groups: Sequence[Spelled]
) -> dict[str, tuple[int, ...]]:
    """Shapes (L, N, width) of the dropout masks of each layer's input: `{prefix}.{group}.{l}`."""
    return {f"{prefix}.{g}.{layer}": (*group.ids.shape, stack.hidden_size if layer
                                      else embedding_size)
            for g, group in enumerate(groups) for layer in range(stack.layers)}


def _masks(prefix: str, stack: Stack, group: int, noise: Noise) -> list[Array | None]:
    """The dropout masks of the layers' inputs."""
    return [noise.get(f"{prefix}.{group}.{layer}") for layer in range(stack.layers)]


def _sum(parts: Sequence[Gradients]) -> Gradients:
    """The sum of gradients of the same parameters."""
    total: Gradients = {}
    for gradients in parts:
        for name, gradient in gradients.items():
            total[name] = add_gradients(total[name], gradient) if name in total else gradient
    return total


def check_characters(name: str, steps: np.ndarray, side: Side) -> None:
    """Raise ValueError unless the side has the characters of each of its unknown words. A target
    may also have the characters of other words."""
    unknown = np.flatnonzero(unknown_steps(steps, side.lengths))
    places = [group.places for group in side.characters]
    spelled = np.sort(np.concatenate(places)) if places else np.zeros(0, np.int64)
    if not np.isin(unknown, spelled).all():
        raise ValueError(f"{name}: expected the characters of its {len(unknown)} words <unk>, at "
                         f"their places, got {len(spelled)}")


# --- read: the vectors of source words ------------------------------------------------------------


class Composed(NamedTuple):
    """The data of a group that `composed_backward` reads."""

    prefix: str
    embedding: EmbeddingCache
    stack: StackCache
    words: RowIndex  # (M,) index of each token's word in the group
    places: Array  # (M,) each token's row among the batch's steps


def composed_forward(
    prefix: str, stack: Stack, parameters: Mapping[str, Array], x: Array,
    groups: Sequence[Spelled], noise: Noise, workspace: Workspace,
) -> list[Composed]:
    """Write the vectors made of the words' characters into x (S, B, E), at the words' positions.

    All tokens of a type share a vector. Arguments: noise, which may have the masks of
    `character_sites`.
    """
    rows = x.reshape(-1, x.shape[2])
    caches = []
    for g, group in enumerate(groups):
        vectors, embedding, stack_cache = _read(
            prefix, stack, parameters, group, _masks(prefix, stack, g, noise), workspace)
        words, places = row_index(group.words), to_device(group.places)
        rows[places] = array_module(vectors).take(vectors, words.ids, axis=0)
        caches.append(Composed(prefix, embedding, stack_cache, words, places))
    return caches


def _read(
    prefix: str, stack: Stack, parameters: Mapping[str, Array], group: Spelled,
    masks: Sequence[Array | None], workspace: Workspace,
) -> tuple[Array, EmbeddingCache, StackCache]:
    """The last top states (N, E) for a group's words, and the caches."""
    W_e, (L, N) = parameters[f"{prefix}.W_e"], group.ids.shape
    c, embedding = embedding_forward(W_e, group.ids)            # (L, N, Ec)
    zero = zero_state(array_module(W_e), stack.unit, N, stack.hidden_size, W_e.dtype)
    _, last, cache = stack_forward(
        c, parameters, prefix, stack, [[zero]] * stack.layers, masks=masks,
        padding=make_padding(group.lengths, L), workspace=workspace,
    )
    return last[-1][0][0], embedding, cache


def composed_backward(dx: Array, caches: Sequence[Composed]) -> Gradients:
    """The gradients of the character network, from dx (S, B, E). The rows of dx at the words'
    positions become zero.

    These words do not read the row of `<unk>`, so it gets no gradient from them.
    """
    rows, parts = dx.reshape(-1, dx.shape[2]), []
    for prefix, embedding, stack, words, places in caches:
        N = len(words.distinct)
        d_vectors = sum_rows(rows[places], words, N).values                # over a type's tokens
        rows[places] = 0.0
        cell = stack.layers[-1][0][1].cell
        d_top: Any = (d_vectors, *[None] * (cell.states - 1))
        d_last: Any = [*[[None]] * (len(stack.layers) - 1), [d_top]]
        dc, _, gradients = stack_backward(None, d_last, stack)
        parts.append({f"{prefix}.W_e": embedding_backward(dc, embedding), **gradients})
    return _sum(parts)


# --- write: target words --------------------------------------------------------------------------


class Written(NamedTuple):
    """The data of a group that `spelled_backward` reads."""

    prefix: str
    embedding: EmbeddingCache
    stack: StackCache
    mask: Array | None  # of the top states, (L, N, H)
    output: OutputCache


def speller_weights(
    prefix: str, stack: Stack, number: int, embedding_size: int, bias: bool, scheme: Scheme
) -> dict[str, Weight]:
    """`character_weights`, and `{prefix}.output.W_hy` (C, H), with its bias if wanted."""
    return {**character_weights(prefix, stack, number, embedding_size, scheme),
            **output_weights(f"{prefix}.output", stack.hidden_size, number, bias, scheme,
                             of="character")}


def first_states(stack: Stack, seeds: Array) -> list[State]:
    """The initial states of a speller, (N, H) per layer (5.3.3): "only the hidden state of the
    first layer" is given, seeds (N, H)."""
    N, H = seeds.shape
    zero = zero_state(array_module(seeds), stack.unit, N, H, seeds.dtype)
    return [(seeds, *zero[1:]), *[zero] * (stack.layers - 1)]


def spelled_forward(
    prefix: str, stack: Stack, parameters: Mapping[str, Array], seeds: Array,
    groups: Sequence[Spelled], noise: Noise, workspace: Workspace,
) -> tuple[Array, list[Written]]:
    """J_c: -log p of the characters of each word and its boundary, nats, summed.

    Arguments: seeds (N, H) of the words of all groups, one group after another, at least one group;
    noise, which may have the masks of `character_sites` and the masks `{prefix}.{group}.output` of
    the top states (L, N, H). Returns a 0-d array and the caches.
    """
    total, caches, start = None, [], 0
    for g, group in enumerate(groups):
        end = start + group.ids.shape[1]
        nats, cache = _write(prefix, stack, parameters, seeds[start:end], group,
                             _masks(prefix, stack, g, noise), noise.get(f"{prefix}.{g}.output"),
                             workspace)
        total, start = nats if total is None else total + nats, end
        caches.append(cache)
    assert total is not None
    return total, caches


def _write(
    prefix: str, stack: Stack, parameters: Mapping[str, Array], seeds: Array, group: Spelled,
    masks: Sequence[Array | None], out_mask: Array | None, workspace: Workspace,
) -> tuple[Array, Written]:
    """J_c of a group: the network reads the boundary, then c_1 .. c_n, and predicts c_1 .. c_n,
    then the boundary."""
    before = np.concatenate([np.full((1, group.ids.shape[1]), END), group.ids[:-1]])
    c, embedding = embedding_forward(parameters[f"{prefix}.W_e"], before)
    h, _, stack_cache = stack_forward(
        c, parameters, prefix, stack, [[state] for state in first_states(stack, seeds)],
        masks=masks, workspace=workspace,
    )
    if out_mask is not None:
        h = h * out_mask
    nats, output = output_forward(f"{prefix}.output", parameters, h, group.ids, group.lengths,
                                  workspace)
    return nats, Written(prefix, embedding, stack_cache, out_mask, output)


def spelled_backward(caches: Sequence[Written], workspace: Workspace) -> tuple[Array, Gradients]:
    """Gradients of J_c: of the seeds (N, H), and of the parameters by name."""
    d_seeds, parts = [], []
    for prefix, embedding, stack, mask, output in caches:
        dh, gradients = output_backward(output, workspace)
        if mask is not None:
            dh = dh * mask
        dc, d_initial, of_stack = stack_backward(dh, None, stack)
        parts.append({f"{prefix}.W_e": embedding_backward(dc, embedding), **of_stack, **gradients})
        d_seeds.append(d_initial[0][0][0])
    return array_module(*d_seeds).concatenate(d_seeds), _sum(parts)


class Speller(Searchable):
    """The network that writes words, as a Searchable: its sentences are words, its tokens
    characters.

    The initial state is from `first_states`.
    """

    def __init__(self, prefix: str, stack: Stack) -> None:
        self._prefix, self._stack = prefix, stack

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> list[State]:
        """The state of `rows` words with zero seeds. A speller has no sources."""
        W_e = parameters[f"{self._prefix}.W_e"]
        zero = array_module(W_e).zeros((rows, self._stack.hidden_size), dtype=W_e.dtype)
        return first_states(self._stack, zero)

    def step(
        self, parameters: Mapping[str, Array], state: list[State], tokens: np.ndarray
    ) -> tuple[Array, list[State], None]:
        """Feed a character to each row, tokens (N,) host ids: logits (N, C), the new state."""
        W_e = parameters[f"{self._prefix}.W_e"]
        check_ids(tokens, W_e.shape[0], "tokens")
        c = gather_rows(W_e, to_device(tokens))                            # (N, Ec)
        h, after = stack_step(c, state, parameters, self._prefix, self._stack)
        return output_step(f"{self._prefix}.output", parameters, h), after, None

    def select(self, state: list[State], rows: np.ndarray, sentences: np.ndarray) -> list[State]:
        """Reorder, repeat or drop hypotheses."""
        return select_states(state, to_device(rows))
