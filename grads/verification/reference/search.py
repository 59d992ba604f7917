"""Batched beam search over a translator's reference in PyTorch, in usual PyTorch style.

`log_softmax` over the vocabulary, one `topk` over all extensions of a sentence, `index_select` of
the states, back-pointers followed at the end; tensors stay on the device. The rules are those of
`nmt.search.beam`: an end marker is accepted among the K best candidates of its step, K others stay
active, a sentence is done when no active hypothesis can enter its n best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference import luong
from grads.verification.reference.peer import Peer
from grads.verification.reference.recurrent import cell
from grads.verification.reference.tokens import Source, State
from nmt.data.batches import Side
from nmt.data.vocabulary import END

Feed = Callable[["Beam"], tuple[Tensor, "Beam"]]


class Found(NamedTuple):
    """One translation."""

    tokens: list[int]  # without the end marker
    log_probability: float  # nats
    finished: bool


class Place(NamedTuple):
    """The end of a hypothesis: after `step` (from 0), from hypothesis `row` of its sentence."""

    log_probability: float
    step: int
    row: int
    finished: bool


class Beam(NamedTuple):
    """The active hypotheses of B sentences, k each (one at first, then K), best first."""

    scores: Tensor  # (B, k)
    tokens: Tensor  # (B, k), the last word of each
    layers: list[State]  # per layer, rows (B k, H)
    h_tilde: Tensor  # (B k, H)


@torch.inference_mode()
def beam_search(
    peer: Peer, source: Side, beam: int, steps: int, nbest: int = 1,
) -> list[list[Found]]:
    """The n best translations of each sentence, of at most `steps` steps.

    Arguments: peer with input feeding and global attention; beam K. Unfinished hypotheses are used
    if there are too few finished ones; the list is in order of log-probability.
    """
    config, B = peer.model.config, source.ids.shape[1]
    assert config.input_feeding and config.attention == "global"
    like = peer.parameters["output.W_hy"]
    side = Source(torch.as_tensor(source.ids, device=like.device),
                  torch.as_tensor(source.lengths))
    hbar, initial = luong.encode(config, peer.parameters, side, {})
    feed = make_feed(peer, hbar, side.lengths)
    active = Beam(like.new_zeros(B, 1), torch.full((B, 1), END, device=like.device), initial,
                like.new_zeros(B, config.hidden_size))
    history: list[tuple[Tensor, Tensor]] = []  # words and parents, (B, K) each
    ended: list[list[Place]] = [[] for _ in range(B)]
    done = np.zeros(B, dtype=bool)
    for step in range(steps):
        log_p, active = feed(active)
        K, V = active.tokens.shape[1], log_p.shape[1]
        total = (active.scores[:, :, None] + log_p.view(B, K, V)).view(B, K * V)
        scores, flat = total.topk(min(2 * beam, K * V), dim=1)
        parents, words = flat // V, flat % V
        is_end = words == END
        if is_end[:, :beam].any():
            _take_ended(ended, done, scores, parents, is_end[:, :beam], step, nbest)
        scores, kept = scores.masked_fill(is_end, -torch.inf).topk(min(beam, K * (V - 1)), dim=1)
        parents, words = parents.gather(1, kept), words.gather(1, kept)
        history.append((words, parents))
        active = _select(active, scores, words, parents)
        if any(ended):
            done |= _finished(ended, scores, nbest)
            if done.all():
                break
    return _read_off(ended, done, active.scores, history, nbest)


def make_feed(peer: Peer, hbar: Tensor, lengths: Tensor) -> Feed:
    """One step of the decoder: log-probabilities (B k, V) of the next word, and the states after.

    Arguments: hbar (S, B, He); lengths (B,).
    """
    config, p = peer.model.config, peer.parameters
    attend: Any = luong.attention(config, p, hbar, lengths, peer.options["reverse_source"])
    cells = [cell(config, p, f"decoder.{layer}") for layer in range(config.layers)]

    def feed(active: Beam) -> tuple[Tensor, Beam]:
        B, k = active.tokens.shape
        x = F.embedding(active.tokens.view(-1), p["decoder.W_e"])
        layers, h_tilde, _ = luong.step_feeding(
            cells, p["attention.W_c"], x, active.layers, active.h_tilde,
            lambda h: attend(h.view(B, k, -1), 1).view(B * k, -1), {})
        logits = F.linear(h_tilde, p["output.W_hy"], p.get("output.b"))
        return logits.log_softmax(dim=1), active._replace(layers=layers, h_tilde=h_tilde)

    return feed


def _select(active: Beam, scores: Tensor, words: Tensor, parents: Tensor) -> Beam:
    """The chosen extensions as active hypotheses."""
    B, k = active.tokens.shape
    rows = (parents + k * torch.arange(B, device=parents.device)[:, None]).view(-1)
    layers = [tuple(part.index_select(0, rows) for part in state) for state in active.layers]
    return Beam(scores, words, layers, active.h_tilde.index_select(0, rows))


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
    """Which sentences (B,) are done, since no active hypothesis can improve: log-probabilities only
    fall."""
    best = scores[:, 0].cpu().numpy()
    return np.array([len(places) == nbest and places[-1].log_probability >= reach
                     for places, reach in zip(ended, best, strict=True)])


def _read_off(
    ended: list[list[Place]], done: np.ndarray, scores: Tensor,
    history: list[tuple[Tensor, Tensor]], nbest: int,
) -> list[list[Found]]:
    """Each sentence's hypotheses, along their back-pointers; active ones fill the rest."""
    words = [step[0].cpu().numpy() for step in history]
    parents = [step[1].cpu().numpy() for step in history]
    last, values = len(history), scores.cpu().numpy()
    found = []
    for b, places in enumerate(ended):
        alive = [] if done[b] else [
            Place(float(score), last, k, False) for k, score in enumerate(values[b])
            if score > -np.inf
        ]
        taken = sorted([*places, *alive][:nbest], key=lambda place: -place.log_probability)
        found.append([_path(place, b, words, parents) for place in taken])
    return found


def _path(place: Place, b: int, words: list[np.ndarray], parents: list[np.ndarray]) -> Found:
    """One hypothesis: `place.row` is its place among the words of the step before it stopped."""
    tokens, row = [], place.row
    for step in range(place.step - 1, -1, -1):
        tokens.append(int(words[step][b, row]))
        row = int(parents[step][b, row])
    return Found(tokens[::-1], place.log_probability, place.finished)
