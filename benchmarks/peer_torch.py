"""The same translator in eager PyTorch: the oracle of the tests and the peer of the benchmarks.

Written from the equations (Luong, 2016) with PyTorch's own modules and automatic differentiation,
as a PyTorch user would write it: `nn.LSTM` wherever all steps are known, an `nn.LSTMCell` loop
under input feeding, attention of `benchmarks.peer_attention`, one `F.cross_entropy` over all steps.
`.to("cuda")` moves it; batches come from the host.

| here | in PyTorch |
|---|---|
| gates i, f, o, h_hat | i, f, g, o: the last two blocks change places |
| `T` = [T_x T_h] | `weight_ih` and `weight_hh` |
| one bias `b` | `bias_ih`; `bias_hh` is zero and frozen |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention.scores import score_weights
from benchmarks.peer_attention import Memory, look, make_keys
from grads.oracle import from_torch, to_torch
from nmt.models.translator import ModelConfig
from nmt.text.batches import Batch

SEQUENCES: dict[str, Any] = {"lstm": nn.LSTM, "rnn": nn.RNN}
CELLS: dict[str, Any] = {"lstm": nn.LSTMCell, "rnn": nn.RNNCell}
STATES = {"lstm": 2, "rnn": 1}

State: TypeAlias = tuple[Tensor, ...]
Mask: TypeAlias = np.ndarray | Tensor | None  # said, for a type checker that has no PyTorch to read
LayerMasks: TypeAlias = Sequence[Mask]
Masks: TypeAlias = tuple[LayerMasks, tuple[LayerMasks, Mask]]


class Recurrent(NamedTuple):
    """Where PyTorch keeps what we call `{name}.T` and `{name}.b`."""

    name: str
    ih: nn.Parameter  # (4H, E)
    hh: nn.Parameter  # (4H, H)
    bias: nn.Parameter | None  # (4H,)


class TorchTranslator(nn.Module):
    """`nmt.models.translator.Translator` with gradients by automatic differentiation."""

    def __init__(
        self, config: ModelConfig, source_size: int, target_size: int, reverse_source: bool = False
    ) -> None:
        """Parameters are empty shapes of the default dtype until `load` fills them."""
        super().__init__()
        if config.unit not in CELLS:
            raise ValueError(f"config: expected unit {' or '.join(CELLS)}, got {config.unit}")
        self.config, self.way = config, config.way(reverse_source)
        E, H, He = config.embedding_size, config.hidden_size, config.source_width
        self.recurrent: list[Recurrent] = []
        self.source_embedding = nn.Embedding(source_size, E)
        self.target_embedding = nn.Embedding(target_size, E)
        self.encoder = nn.ModuleList(self._encoder_layer(layer) for layer in range(config.layers))
        self.decoder = nn.ModuleList(self._decoder_layer(layer) for layer in range(config.layers))
        width = STATES[config.unit]
        bridges = config.layers if config.bridge else 0
        self.bridge = nn.ModuleList(
            nn.Linear(width * He, width * H, bias=False) for _ in range(bridges)
        )
        if config.attention != "none":
            self.joiner = nn.Linear(He + H, H, bias=False)
            shapes = score_weights(self.way, "attention", H, He)
            self.score = nn.ParameterDict({name.split(".")[1]: torch.empty(weight.shape)
                                           for name, weight in shapes.items()})
        self.output = nn.Linear(H, target_size, bias=config.output_bias)

    def _encoder_layer(self, layer: int) -> nn.Module:
        """One layer of the encoder, both directions if there are two."""
        config = self.config
        width = config.embedding_size if layer == 0 else config.source_width
        module = SEQUENCES[config.unit](
            width, config.hidden_size, bias=config.biases, bidirectional=config.bidirectional
        )
        if config.bidirectional:
            self._bind(f"encoder.{layer}.forward", module, "_l0")
            self._bind(f"encoder.{layer}.backward", module, "_l0_reverse")
        else:
            self._bind(f"encoder.{layer}", module, "_l0")
        return module

    def _decoder_layer(self, layer: int) -> nn.Module:
        """One layer of the decoder: a cell under input feeding, else a sequence."""
        config = self.config
        H = config.hidden_size
        width = config.embedding_size if layer == 0 else H
        if config.input_feeding:
            width += H if layer == 0 else 0
            module = CELLS[config.unit](width, H, bias=config.biases)
        else:
            module = SEQUENCES[config.unit](width, H, bias=config.biases)
        self._bind(f"decoder.{layer}", module, "" if config.input_feeding else "_l0")
        return module

    def _bind(self, name: str, module: nn.Module, suffix: str) -> None:
        """Remember which tensors of `module` are our parameter `name`."""
        bias = None
        if self.config.biases:
            bias = getattr(module, f"bias_ih{suffix}")
            frozen = getattr(module, f"bias_hh{suffix}").requires_grad_(False)
            nn.init.zeros_(frozen)
        ih, hh = (getattr(module, f"weight_{part}{suffix}") for part in ("ih", "hh"))
        self.recurrent.append(Recurrent(name, ih, hh, bias))

    # --- our parameters, in and out -------------------------------------------------------------

    def plain(self) -> Iterator[tuple[str, Any]]:
        """The parameters that have the same shape here and there."""
        config = self.config
        yield "encoder.W_e", self.source_embedding.weight
        yield "decoder.W_e", self.target_embedding.weight
        for layer, module in enumerate(self.bridge):
            yield f"bridge.{layer}.W", module.weight
        if config.attention != "none":
            yield "attention.W_c", self.joiner.weight
            yield from ((f"attention.{name}", weight) for name, weight in self.score.items())
        yield "output.W_hy", self.output.weight
        if config.output_bias:
            yield "output.b", self.output.bias

    @torch.no_grad()
    def load(self, parameters: Mapping[str, np.ndarray]) -> TorchTranslator:
        """Copy our parameters, by name; returns self. Their dtype becomes the module's."""
        self.to(torch.tensor(parameters["encoder.W_e"][:0]).dtype)
        for name, tensor in self.plain():
            tensor.copy_(torch.tensor(parameters[name]))
        for name, ih, hh, bias in self.recurrent:
            T = torch.tensor(to_torch(parameters[f"{name}.T"], self.config.unit))
            ih.copy_(T[:, : ih.shape[1]])
            hh.copy_(T[:, ih.shape[1] :])
            if bias is not None:
                bias.copy_(torch.tensor(to_torch(parameters[f"{name}.b"], self.config.unit)))
        return self

    def dump(self, gradients: bool) -> dict[str, np.ndarray]:
        """Copies of the gradients (or of the parameters), under our names and in our layout."""

        def value(parameter: Any) -> np.ndarray:
            tensor = parameter.grad if gradients else parameter.detach()
            assert tensor is not None, "no gradient: call backward first"
            return tensor.cpu().numpy().copy()

        found = {name: value(parameter) for name, parameter in self.plain()}
        for name, ih, hh, bias in self.recurrent:
            found[f"{name}.T"] = from_torch(
                np.concatenate([value(ih), value(hh)], axis=1), self.config.unit)
            if bias is not None:
                found[f"{name}.b"] = from_torch(value(bias), self.config.unit)
        return found

    # --- the model ------------------------------------------------------------------------------

    def forward(self, batch: Batch, masks: Masks | None = None) -> Tensor:
        """The summed loss in nats (thesis, Eq. 2.52).

        masks are what `Translator._masks` or `draw_masks` draws: one per encoder layer, then one
        per decoder layer and one of [c_t; h_t]; None switches dropout off.
        """
        nothing: LayerMasks = [None] * self.config.layers
        encoder_masks, (decoder_masks, joined_mask) = masks or (nothing, (nothing, None))
        hbar, initial = self._encode(batch, encoder_masks)
        memory = self._remember(hbar, batch) if self.config.attention != "none" else None
        x = self.target_embedding(self._here(batch.target_in))  # (T, B, E)
        if self.config.input_feeding and memory is not None:
            h = self._decode_feeding(x, initial, memory, decoder_masks, joined_mask)
        else:
            h = self._decode(x, initial, memory, decoder_masks, joined_mask)
        targets = self._here(batch.target_out)
        if (batch.target.lengths < len(targets)).any():
            real = self._here(np.arange(len(targets))[:, None] < batch.target.lengths)
            h, targets = h[real], targets[real]
        return functional.cross_entropy(
            self.output(h.flatten(0, -2)), targets.flatten(), reduction="sum"
        )

    def _here(self, array: np.ndarray) -> Tensor:
        """A host array where the parameters are."""
        return torch.from_numpy(array).to(self.output.weight.device)

    def draw_masks(self, batch: Batch) -> Masks | None:
        """Dropout masks as `nn.Dropout` would draw them, where the parameters are."""
        config, weight = self.config, self.output.weight
        if config.dropout == 0.0:
            return None

        def draw(steps: int, width: int) -> Tensor:
            mask = weight.new_empty(steps, len(batch.indices), width)
            return mask.bernoulli_(1 - config.dropout).div_(1 - config.dropout)

        E, H, He = config.embedding_size, config.hidden_size, config.source_width
        S, T, above = len(batch.sources[0].ids), len(batch.target_in), range(1, config.layers)
        encoder = [draw(S, E), *(draw(S, He) for _ in above)]
        decoder = [draw(T, E), *(draw(T, H) for _ in above)]
        return encoder, (decoder, draw(T, H if config.attention == "none" else He + H))

    def _encode(self, batch: Batch, masks: LayerMasks) -> tuple[Tensor, list[State]]:
        """Top states (S, B, He) and the decoder's initial state, layer by layer."""
        x = self.source_embedding(self._here(batch.sources[0].ids))  # (S, B, E)
        S = len(x)
        lengths = torch.from_numpy(batch.sources[0].lengths)  # packing wants them on the host
        ragged = bool((batch.sources[0].lengths < S).any())
        initial = []
        for number, (layer, mask) in enumerate(zip(self.encoder, masks, strict=True)):
            x = _drop(x, mask)
            if ragged:
                packed, last = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
                x, _ = pad_packed_sequence(packed, total_length=S)  # (S, B, He)
            else:
                x, last = layer(x)
            initial.append(self._cross(number, last if isinstance(last, tuple) else (last,)))
        return x, initial

    def _cross(self, layer: int, last: State) -> State:
        """The bridge: from last states (directions, B, H) to the decoder's first (B, H)."""
        joined = tuple(torch.cat(tuple(part), dim=1) for part in last)  # (B, He) each
        if not self.config.bridge:
            return joined
        return self.bridge[layer](torch.cat(joined, dim=1)).tanh().chunk(len(joined), dim=1)

    @property
    def _score(self) -> Mapping[str, Any]:
        """The weights of the score, and of local-p's position."""
        return dict(self.score.items())

    def _remember(self, hbar: Tensor, batch: Batch) -> Memory:
        """Sentence-major states and keys, and which of them are padding."""
        hbar = hbar.transpose(0, 1).contiguous()  # (B, S, He)
        keys = make_keys(self.way, self._score, hbar)
        S = hbar.shape[1]
        dead = None
        if (batch.sources[0].lengths < S).any():
            dead = self._here((np.arange(S) >= batch.sources[0].lengths[:, None])[:, None])
        return Memory(hbar, keys, dead, self._here(batch.sources[0].lengths))

    def _decode(
        self, x: Tensor, initial: list[State], memory: Memory | None, masks: LayerMasks, joined: Any
    ) -> Tensor:
        """All steps through each layer, then all through attention: (T, B, H)."""
        for layer, state, mask in zip(self.decoder, initial, masks, strict=True):
            first = tuple(part[None] for part in state)
            x, _ = layer(_drop(x, mask), first if len(first) == 2 else first[0])
        if memory is None:
            return _drop(x, joined)
        context = look(self.way, self._score, x.transpose(0, 1), memory, 1).transpose(0, 1)
        return self.joiner(_drop(torch.cat([context, x], dim=2), joined)).tanh()

    def _decode_feeding(
        self, x: Tensor, states: list[State], memory: Memory, masks: LayerMasks, joined: Any
    ) -> Tensor:
        """Step by step, h~_{t-1} beside the embedding of step t (section 4.2.3): (T, B, H)."""
        h_tilde = x.new_zeros(x.shape[1], self.config.hidden_size)
        outputs = []
        for t, x_t in enumerate(_drop(x, masks[0]).unbind(0)):
            h = torch.cat([x_t, h_tilde], dim=1)  # (B, E + H)
            for number, cell in enumerate(self.decoder):
                if number > 0:
                    h = _drop(h, masks[number], t)
                states[number] = _step(cell, h, states[number])
                h = states[number][0]
            context = look(self.way, self._score, h[:, None], memory, t + 1)[:, 0]  # (B, He)
            h_tilde = self.joiner(_drop(torch.cat([context, h], dim=1), joined, t)).tanh()
            outputs.append(h_tilde)
        return torch.stack(outputs)


def _step(cell: nn.Module, x: Tensor, state: State) -> State:
    """One step of an LSTM or vanilla cell, states as tuples for both."""
    return cell(x, state) if len(state) == 2 else (cell(x, state[0]),)


def _drop(x: Tensor, mask: Mask, t: int | None = None) -> Tensor:
    """Frozen dropout: `mask`, or its time step t, times x."""
    if mask is None:
        return x
    return x * torch.as_tensor(mask if t is None else mask[t], device=x.device)
