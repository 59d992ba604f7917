"""Two encoders and one decoder: Luong's translator for two sources with the same meaning.

Source: Zoph and Knight (2016), "Multi-Source Neural Translation", the "basic" combination. In each
layer the encoders' last states h^1, c^1 and h^2, c^2 give the decoder its first state:

    h_0 = tanh(W [h^1; h^2]),  c_0 = c^1 + c^2                       (Sennrich sources)

and the attentional vector reads a context of each encoder, h~_t = tanh(W_c [c_t^1; c_t^2; h_t]).
Slides and paper write c both for cells and for contexts. Here an LSTM's cells are added, since W_c
reads both contexts separately. Units without cells have only h_0. With bidirectional encoders,
which the paper does not have, W reads the last states of both directions, and all cells are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attention.attention import attentional_backward, attentional_forward, memory_forward
from attention.joint_alignment import alignment_columns
from attention.several import Memories
from backend import Array, array_module, to_device
from backend.errors import check
from lstm.cells import State
from lstm.parameters import Parameters, Scheme, Weight, axis
from lstm.stack import Stack
from nmt.data.batches import Batch, Side
from nmt.models.bridge import BridgeCache
from nmt.models.contract import Architecture, Gradients, Noise, Tables
from nmt.models.decoder import attention_weights, decoder_weights
from nmt.models.encoder import encoder_backward, encoder_forward, encoder_weights
from nmt.models.translator import Read, SearchState, Translator
from nmt.models.translator_config import ModelConfig
from nmt.models.variants import NEVER, Variants

ENCODERS = ("encoder", "second_encoder")  # prefixes of the parameters' names
ATTENTIONS = ("attention", "second_attention")
COMBINER = "combiner"


@dataclass(frozen=True)
class TwoSourcesConfig(ModelConfig):
    """The parts of a translator of two sources; checked when made (ValueError)."""

    bridge: bool = True  # must stay true: the encoders' last states are always combined

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.bridge:
            raise ValueError("bridge: expected true, since the last states of two encoders are "
                             "combined, got false")
        check(self, "factors", not self.factors, "none with two sources, whose words have none")
        check(self, "lexicon_epsilon", self.lexicon_epsilon is None,
              "null with two sources, which are aligned apart")
        if self.lexical:
            raise ValueError("lexical: expected false with two sources, whose words it would have "
                             "to average apart, got true")


# --- the decoder's first states -------------------------------------------------------------------


def combiner_weights(prefix: str, stack: Stack, scheme: Scheme) -> dict[str, Weight]:
    """`{prefix}.{l}.W` (H, 2 He). stack: that of each encoder."""
    ends = (" forward", " backward") if stack.bidirectional else ("",)
    columns = [f"h {number}{end}" for number in (1, 2) for end in ends]
    H = stack.hidden_size
    axes = axis("state", {"h": H}), axis("column", dict.fromkeys(columns, H))
    return {f"{prefix}.{layer}.W": Weight(axes, scheme.matrix()) for layer in range(stack.layers)}


def combiner_forward(
    prefix: str, parameters: Mapping[str, Array], last: Sequence[Sequence[Sequence[State]]]
) -> tuple[list[State], BridgeCache]:
    """The decoder's initial states, one per layer, from last[source][l][direction]."""
    states: list[State] = []
    cache: BridgeCache = []
    for layer, of_sources in enumerate(zip(*last, strict=True)):
        ends = [end for of_layer in of_sources for end in of_layer]
        xp, name = array_module(ends[0][0]), f"{prefix}.{layer}.W"
        joined = xp.concatenate([end[0] for end in ends], axis=1)  # (B, 2 He)
        h = attentional_forward(joined, parameters[name])      # (B, H) (Sennrich sources)
        cells = [sum((end[1] for end in ends[1:]), start=ends[0][1])  # (B, H)
                 for _ in ends[0][1:]]
        states.append((h, *cells))
        cache.append((name, parameters[name], joined, h))
    return states, cache


def combiner_backward(
    d_states: Sequence[State], cache: BridgeCache, directions: int
) -> tuple[list[list[list[State]]], Parameters]:
    """Gradients of the encoders' last states, [source][l][direction], and of the combiner."""
    d_last: list[list[list[State]]] = [[], []]
    gradients: Parameters = {}
    for (d_h, *d_cells), (name, W, joined, h) in zip(d_states, cache, strict=True):
        d_joined, da = attentional_backward(d_h, h, W)                     # (2.11)
        gradients[name] = array_module(da).matmul(da.T, joined)            # (2.12)
        H = h.shape[1]
        ends = [(d_joined[:, k : k + H], *d_cells)                         # c_0 is a sum
                for k in range(0, joined.shape[1], H)]
        for source, d_ends in enumerate(d_last):
            d_ends.append(ends[source * directions : (source + 1) * directions])
    return d_last, gradients


class TwoSources(Translator):
    """A translator that reads two sides of a batch."""

    config: TwoSourcesConfig

    def __init__(
        self, config: TwoSourcesConfig, source_sizes: tuple[int, ...], target_size: int,
        reverse_source: bool = False,
    ) -> None:
        """source_sizes: of both vocabularies. reverse_source: of both sides."""
        super().__init__(config, source_sizes[0], target_size, reverse_source)
        self.source_sizes = source_sizes

    def weights(self) -> dict[str, Weight]:
        """As the translator's, and also `second_encoder`, `second_attention` and `combiner`;
        `attention.W_c` is (H, 2 He + H)."""
        config, scheme, source = self.config, self.config.scheme, self.source
        E, H = config.embedding_size, config.hidden_size
        inputs = {"x": E, "h~": H} if config.input_feeding else {"x": E}
        weights: dict[str, Weight] = {}
        for prefix, size in zip(ENCODERS, self.source_sizes, strict=True):
            weights |= encoder_weights(prefix, source, size, E, scheme)
        return {
            **weights, **combiner_weights(COMBINER, source, scheme),
            **decoder_weights("decoder", self.target, self.target_size, inputs, scheme),
            **({} if config.attention == "none" else self._attention_weights()),
            **self.head.weights(),
        }

    def _attention_weights(self) -> dict[str, Weight]:
        """The weights of both scores, and of their common W_c."""
        H, scheme, source = self.config.hidden_size, self.config.scheme, self.source
        first, second = (attention_weights(prefix, self.variant, H, source, scheme)
                         for prefix in ATTENTIONS)
        del second[f"{ATTENTIONS[1]}.W_c"]
        axes = axis("unit", H), axis("column", {"c 1": source.width, "c 2": source.width, "h": H})
        return {**first, **second, f"{ATTENTIONS[0]}.W_c": Weight(axes, scheme.matrix())}

    def _mask_shapes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        shapes, (S, B) = super()._mask_shapes(batch), batch.sources[1].ids.shape
        for layer in range(self.config.layers):
            shapes[f"{ENCODERS[1]}.{layer}"] = (S, B, shapes[f"{ENCODERS[0]}.{layer}"][2])
        joined = shapes.get("decoder.joined")
        if joined is not None and self.config.attention != "none":
            shapes["decoder.joined"] = (*joined[:2], joined[2] + self.source.width)
        return shapes

    def _read(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], noise: Noise
    ) -> Read:
        memories, ends, caches = [], [], []
        for prefix, attention, side in zip(ENCODERS, ATTENTIONS, sources, strict=True):
            states, last, cache = encoder_forward(
                prefix, parameters, side, self.source, noise, self.workspace)
            ends.append(last)
            caches.append(cache)
            if self.config.attention != "none":
                memories.append(memory_forward(states, side.lengths, self.variant, parameters,
                                               attention))
        initial, combined = combiner_forward(COMBINER, parameters, ends)
        memory = Memories(tuple(memories)) if memories else None
        return Read(memory, initial, tuple(caches), combined)

    def _read_backward(
        self, dstates: Array | None, d_initial: list[State], read: Read, d_source: Array | None
    ) -> Gradients:
        assert read.bridge is not None
        d_last, gradients = combiner_backward(d_initial, read.bridge, 1 + self.source.bidirectional)
        of_sources = [None, None] if dstates is None else array_module(dstates).split(
            dstates, [len(read.encoders[0].x)])
        for d, last, encoder in zip(of_sources, d_last, read.encoders, strict=True):
            gradients |= encoder_backward(d, last, encoder)
        return gradients

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> SearchState:
        """Algorithm 5, line 1. The alignments of `step` are joint, by `alignment_columns`."""
        state = super().encode(parameters, sources, rows)
        if not isinstance(state.memory, Memories):
            return state
        columns = alignment_columns([side.lengths for side in sources],
                                    [len(side.ids) for side in sources])
        return state._replace(memory=state.memory._replace(columns=to_device(columns)))


def build(config: TwoSourcesConfig, tables: Tables) -> TwoSources:
    """The model of a configuration."""
    return TwoSources(config, tables.sources, tables.target, tables.reverse_source)


def variants() -> dict[str, Variants]:
    """The options that this module's code distinguishes: both attentions with and without feeding,
    a score whose gradients are summed over the steps, and others. The parts are checked with the
    translator."""
    tiny = {
        "unit": ("lstm", "gru"), "attention": ("global", "local-p", "none"),
        "score": ("general", "additive"), "input_feeding": (True, False), "layers": (2, 1),
        "bidirectional": (False, True), "dropout": (0.0, 0.3), "clip_elements": (None, NEVER),
        "window": (1,), "hidden_size": (2,), "embedding_size": (3,),
    }
    real = {name: values[:1] for name, values in tiny.items()} | {
        "attention": ("global", "local-p"), "input_feeding": (True, False),
        "bidirectional": (False, True), "dropout": (0.3,), "window": (9,), "hidden_size": (24,),
        "embedding_size": (20,)}
    together = ("attention", "input_feeding")
    every = {name: values[:1] for name, values in tiny.items()}
    return {"tiny": Variants(tiny, together), "real": Variants(real, together),
            "every": Variants(every)}


ARCHITECTURE = Architecture(TwoSourcesConfig, build, variants, sources=2)
