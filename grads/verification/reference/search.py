"""Batched beam search over a translator's reference in PyTorch, in usual PyTorch style.

It takes `log_softmax` over the vocabulary, one `topk` over all extensions of a sentence, and
`index_select` of the states, and follows back-pointers at the end. Tensors stay on the device. The
rules are those of `nmt.search.beam`: an end marker among the K best candidates of its step is
accepted, K other candidates stay active, and a sentence is done when no active hypothesis can enter
its n best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference import luong, transformer
from grads.verification.reference.peer import Peer
from grads.verification.reference.recurrent import cell
from grads.verification.reference.tokens import Source, State, real
from nmt.data.batches import Side
from nmt.data.vocabulary import END
from nmt.models.transformer import TransformerConfig

Feed = Callable[["Beam"], tuple[Tensor, "Beam"]]


class Found(NamedTuple):
    """A translation."""

    tokens: list[int]  # without the end marker
    log_probability: float  # nats
    finished: bool


class Place(NamedTuple):
    """The end of a hypothesis: after `step` (from 0), as hypothesis `row` of its sentence."""

    log_probability: float
    step: int
    row: int
    finished: bool


class Beam(NamedTuple):
    """The active hypotheses of B sentences, k for each (first 1, then K), the best first."""

    scores: Tensor  # (B, k)
    tokens: Tensor  # (B, k), the last word of each
    state: list[Tensor]  # the decoder's state, rows (B k, ...)


@torch.inference_mode()
def beam_search(
    peer: Peer, source: Side, beam: int, steps: int, nbest: int = 1,
) -> list[list[Found]]:
    """The n best translations of each sentence, of at most `steps` steps.

    Arguments: peer, a Transformer, or a translator with input feeding and global attention; beam K.
    Unfinished hypotheses are used if there are too few finished ones; the list is in order of
    log-probability.
    """
    B, like = source.ids.shape[1], peer.parameters["output.W_hy"]
    side = Source(torch.as_tensor(source.ids, device=like.device),
                  torch.as_tensor(source.lengths))
    is_transformer = isinstance(peer.model.config, TransformerConfig)
    feed, state = (transformer_feed if is_transformer else luong_feed)(peer, side)
    active = Beam(like.new_zeros(B, 1), torch.full((B, 1), END, device=like.device), state)
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


def luong_feed(peer: Peer, source: Source) -> tuple[Feed, list[Tensor]]:
    """The function for a step of the decoder, and the first state: two tensors of each layer, and
    h~. A step returns log-probabilities (B k, V) of the next word and the next states."""
    config, p = peer.model.config, peer.parameters
    assert config.input_feeding and config.attention == "global"
    hbar, initial = luong.encode(config, p, source, {})
    attend: Any = luong.attention(config, p, hbar, source.lengths, peer.options["reverse_source"])
    cells = [cell(config, p, f"decoder.{layer}") for layer in range(config.layers)]
    parts = len(initial[0])

    def feed(active: Beam) -> tuple[Tensor, Beam]:
        (B, k), (*flat, h_tilde) = active.tokens.shape, active.state
        before: list[State] = [tuple(flat[i : i + parts]) for i in range(0, len(flat), parts)]
        x = F.embedding(active.tokens.view(-1), p["decoder.W_e"])
        layers, h_tilde, _ = luong.step_feeding(
            cells, p["attention.W_c"], x, before, h_tilde,
            lambda h: attend(h.view(B, k, -1), 1).view(B * k, -1), {}, config.residual)
        logits = F.linear(h_tilde, p["output.W_hy"], p.get("output.b"))
        return logits.log_softmax(dim=1), active._replace(
            state=[*(tensor for layer in layers for tensor in layer), h_tilde])

    return feed, [*(tensor for layer in initial for tensor in layer),
                  hbar.new_zeros(hbar.shape[1], config.hidden_size)]


def transformer_feed(peer: Peer, source: Source) -> tuple[Feed, list[Tensor]]:
    """The same for a Transformer. Its state is the keys and values (B k, n, t, d / n) of the words
    so far, for each layer. Those of the source are computed once."""
    config, p = peer.model.config, peer.parameters
    padding = ~real(source.lengths, len(source.ids)).T[:, None, None].to(source.ids.device)
    memory = transformer.stack(config, p, "encoder", source.ids, padding, {})
    waves = transformer.sinusoids(config.positions, config.hidden_size, memory)
    names = [f"decoder.{layer}" for layer in range(config.decoder_layers)]

    def heads(name: str, letter: str, x: Tensor) -> Tensor:
        y = F.linear(x, p[f"{name}.W_{letter}"], p.get(f"{name}.b_{letter}"))
        return y.unflatten(-1, (config.heads, -1)).transpose(1, 2)

    sources = [(heads(f"{name}.source", "k", memory), heads(f"{name}.source", "v", memory))
               for name in names]

    def attend(name: str, q: Tensor, k: Tensor, v: Tensor, masked: Tensor | None) -> Tensor:
        a = F.scaled_dot_product_attention(q, k, v, None if masked is None else ~masked)
        return F.linear(a.transpose(1, 2).flatten(2), p[f"{name}.W_o"], p[f"{name}.b_o"])

    def feed(active: Beam) -> tuple[Tensor, Beam]:
        (B, k), state = active.tokens.shape, list(active.state)
        x = F.embedding(active.tokens.view(-1, 1), p["decoder.W_e"]) * config.hidden_size**0.5
        x = x + waves[state[0].shape[2]]

        def attend_to_words(place: int, name: str, x: Tensor) -> Tensor:
            keys, values = (torch.cat([before, heads(name, letter, x)], dim=2) for letter, before in
                            zip("kv", state[2 * place : 2 * place + 2], strict=True))
            state[2 * place : 2 * place + 2] = keys, values
            return attend(name, heads(name, "q", x), keys, values, None)

        def attend_to_source(place: int, name: str, x: Tensor) -> Tensor:
            q = heads(name, "q", x.view(B, k, -1))
            return attend(name, q, *sources[place], padding).view(B * k, 1, -1)

        for place, name in enumerate(names):
            for kind, act in (("attention", attend_to_words), ("source", attend_to_source),
                              ("feed_forward", None)):
                full = f"{name}.{kind}"
                read = transformer.norm(config.norm, p, f"{full}.norm", x) if config.pre_norm else x
                x = x + (transformer.feed_forward(p, full, read, {}) if act is None
                         else act(place, full, read))
                x = x if config.pre_norm else transformer.norm(config.norm, p, f"{full}.norm", x)
        x = transformer.norm(config.norm, p, "decoder.norm", x) if config.pre_norm else x
        logits = F.linear(x[:, 0], p["output.W_hy"], p.get("output.b"))
        return logits.log_softmax(dim=1), active._replace(state=state)

    empty = memory.new_empty(len(memory), config.heads, 0, config.hidden_size // config.heads)
    return feed, [empty] * (2 * len(names))


def _select(active: Beam, scores: Tensor, words: Tensor, parents: Tensor) -> Beam:
    """The chosen extensions as active hypotheses."""
    B, k = active.tokens.shape
    rows = (parents + k * torch.arange(B, device=parents.device)[:, None]).view(-1)
    return Beam(scores, words, [tensor.index_select(0, rows) for tensor in active.state])


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
    """Whether each sentence is done (B,), because no active hypothesis can enter its n best:
    log-probabilities only fall."""
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
    results = []
    for b, places in enumerate(ended):
        alive = [] if done[b] else [
            Place(float(score), last, k, False) for k, score in enumerate(values[b])
            if score > -np.inf
        ]
        taken = sorted([*places, *alive][:nbest], key=lambda place: -place.log_probability)
        results.append([_path(place, b, words, parents) for place in taken])
    return results


def _path(place: Place, b: int, words: list[np.ndarray], parents: list[np.ndarray]) -> Found:
    """A hypothesis. `place.row` is its place among the words of the step before it stopped."""
    tokens, row = [], place.row
    for step in range(place.step - 1, -1, -1):
        tokens.append(int(words[step][b, row]))
        row = int(parents[step][b, row])
    return Found(tokens[::-1], place.log_probability, place.finished)
