"""Beam search over the translator of `benchmarks.peer_torch`, batched, as a PyTorch user writes it.

`log_softmax` over the vocabulary, one `topk` over all extensions of a sentence, `index_select` of
the states, back-pointers read off at the end; tensors stay on the device. The rules are those of
`nmt.search.beam`: an end marker counts among the K best candidates of its step, K others go on, a
sentence is done when no live hypothesis can enter its n best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.peer_attention import Memory, look
from benchmarks.peer_torch import State, TorchTranslator
from nmt.text.batches import Batch, Side
from nmt.text.vocabulary import END


class Found(NamedTuple):
    """One translation."""

    tokens: list[int]  # without the end marker
    log_probability: float  # nats
    finished: bool


class Place(NamedTuple):
    """Where a hypothesis stopped: after `step` (from 0), from hypothesis `row` of its sentence."""

    log_probability: float
    step: int
    row: int
    finished: bool


class Beam(NamedTuple):
    """The live hypotheses of B sentences, k each (one at first, then K), best first."""

    scores: Tensor  # (B, k)
    tokens: Tensor  # (B, k), the last word of each
    layers: list[State]  # per layer, rows (B k, H)
    h_tilde: Tensor  # (B k, H)


@torch.inference_mode()
def beam_search(
    peer: TorchTranslator, source: Side, beam: int, steps: int, nbest: int = 1,
) -> list[list[Found]]:
    """The n best translations of each sentence, of at most `steps` steps.

    Arguments: peer with input feeding and global attention; beam K. Unfinished hypotheses stand after finished ones.
    """
    assert peer.config.input_feeding and not peer.way.local
    batch = Batch((source,), source, source.lengths)
    hbar, initial = peer._encode(batch, [None] * peer.config.layers)
    memory, B = peer._remember(hbar, batch), source.ids.shape[1]
    live = Beam(hbar.new_zeros(B, 1), torch.full((B, 1), END, device=hbar.device), initial,
                hbar.new_zeros(B, peer.config.hidden_size))
    history: list[tuple[Tensor, Tensor]] = []  # words and parents, (B, K) each
    ended: list[list[Place]] = [[] for _ in range(B)]
    done = np.zeros(B, dtype=bool)
    for step in range(steps):
        log_p, live = _feed(peer, live, memory, step)
        K, V = live.tokens.shape[1], log_p.shape[1]
        total = (live.scores[:, :, None] + log_p.view(B, K, V)).view(B, K * V)
        scores, flat = total.topk(min(2 * beam, K * V), dim=1)
        parents, words = flat // V, flat % V
        is_end = words == END
        if is_end[:, :beam].any():
            _take_ended(ended, done, scores, parents, is_end[:, :beam], step, nbest)
        scores, kept = scores.masked_fill(is_end, -torch.inf).topk(min(beam, K * (V - 1)), dim=1)
        parents, words = parents.gather(1, kept), words.gather(1, kept)
        history.append((words, parents))
        live = _select(live, scores, words, parents)
        if any(ended):
            done |= _finished(ended, scores, nbest)
            if done.all():
                break
    return _read_off(ended, done, live.scores, history, nbest)


def _feed(
    peer: TorchTranslator, live: Beam, memory: Memory, step: int
) -> tuple[Tensor, Beam]:
    """Log-probabilities (B k, V) of the next word, and the states after it was fed the last."""
    B, k = live.tokens.shape
    h = torch.cat([peer.target_embedding(live.tokens.view(-1)), live.h_tilde], dim=1)
    layers = []
    for cell, state in zip(peer.decoder, live.layers, strict=True):
        layers.append(cell(h, state))
        h = layers[-1][0]
    c = look(peer.way, peer._score, h.view(B, k, -1), memory, step + 1).view(B * k, -1)
    h_tilde = peer.joiner(torch.cat([c, h], dim=1)).tanh()
    return peer.output(h_tilde).log_softmax(dim=1), live._replace(layers=layers, h_tilde=h_tilde)


def _select(live: Beam, scores: Tensor, words: Tensor, parents: Tensor) -> Beam:
    """The chosen extensions as live hypotheses."""
    B, k = live.tokens.shape
    rows = (parents + k * torch.arange(B, device=parents.device)[:, None]).view(-1)
    layers = [tuple(part.index_select(0, rows) for part in state) for state in live.layers]
    return Beam(scores, words, layers, live.h_tilde.index_select(0, rows))


def _take_ended(
    ended: list[list[Place]], done: np.ndarray, scores: Tensor, parents: Tensor, is_end: Tensor,
    step: int, nbest: int,
) -> None:
    """Record the hypotheses that emitted the end marker, the n best of each sentence."""
    values, rows = scores.cpu(), parents.cpu()
    for b, j in is_end.nonzero().tolist():
        if not done[b] and values[b, j] > -torch.inf:
            ended[b].append(Place(float(values[b, j]), step, int(rows[b, j]), True))
            ended[b].sort(key=lambda place: -place.log_probability)
            del ended[b][nbest:]


def _finished(ended: list[list[Place]], scores: Tensor, nbest: int) -> np.ndarray:
    """Which sentences (B,) no live hypothesis can improve: log-probabilities only fall."""
    best = scores[:, 0].cpu().numpy()
    return np.array([len(places) == nbest and places[-1].log_probability >= reach
                     for places, reach in zip(ended, best, strict=True)])


def _read_off(
    ended: list[list[Place]], done: np.ndarray, scores: Tensor,
    history: list[tuple[Tensor, Tensor]], nbest: int,
) -> list[list[Found]]:
    """Each sentence's hypotheses, along their back-pointers; live ones fill up what is missing."""
    words = [step[0].cpu().numpy() for step in history]
    parents = [step[1].cpu().numpy() for step in history]
    last, values = len(history), scores.cpu().numpy()
    found = []
    for b, places in enumerate(ended):
        alive = [] if done[b] else [
            Place(float(score), last, k, False) for k, score in enumerate(values[b])
            if score > -np.inf
        ]
        found.append([_path(place, b, words, parents) for place in [*places, *alive][:nbest]])
    return found


def _path(place: Place, b: int, words: list[np.ndarray], parents: list[np.ndarray]) -> Found:
    """One hypothesis: `place.row` is its place among the words of the step before it stopped."""
    tokens, row = [], place.row
    for step in range(place.step - 1, -1, -1):
        tokens.append(int(words[step][b, row]))
        row = int(parents[step][b, row])
    return Found(tokens[::-1], place.log_probability, place.finished)
