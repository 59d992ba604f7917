"""Export of Luong's translator to two graphs of ONNX, which onnxruntime and other engines run.

| graph | reads | writes |
|---|---|---|
| encoder | `source` (S, B) ids, `lengths` (B,) int32 | the state |
| decoder | `tokens` (N,) ids, the state | `logits` (N, V), `alignment` (N, S), `next_h` .. |

The state is all that the decoder reads beside tokens: `h` (L, N, H), and for an LSTM `c` (L, N, H);
with input feeding `fed` (N, H); with attention `memory` (N, S, He), `keys` (N, S, A) and `padding`
(N, S); with the lexical module `words` (N, S, E). After a step the caller replaces `h` by `next_h`,
`c` by `next_c` and `fed` by `next_fed`; the others stay. Search reorders axis N of all of them.

ONNX's recurrent layers have their gates in another order, i, o, f, c and z, r, h: each cell
declares its operator (`lstm.cells.cell.Operator`). ONNX's GRU resets the state before the product,
or after it with `linear_before_reset`. The further biases of a cell are ONNX's biases of the
product with the state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attention.norm_cache import EPS
from attention.scores import CONTENT, SCALED, SCORES, TANH
from backend import to_host
from backend.errors import UserError, missing
from lstm.cells import CELLS
from nmt.files import new_directory
from nmt.models.translator_config import CHOICES, ModelConfig
from nmt.run_files import vocabulary_file
from nmt.system import System

FORMAT = "--format onnx"
OPSET, IR_VERSION = 18, 10  # of 2023 and 2024: onnxruntime 1.18 and later run them
COVERED: dict[str, tuple[Any, ...]] = {  # values of a model's keys that the graphs can express
    "unit": tuple(unit for unit, cell in CELLS.items() if cell.onnx), "residual": (False,),
    "attention": ("global", "none"),
    "score": tuple(score for score in CHOICES if score in CONTENT),
    "factors": ({},), "lexicon_epsilon": (None,),
}


def export(system: System, directory: Path) -> None:
    """Write a translator into a new or empty directory.

    The directory gets the two graphs, the vocabularies as in a run directory, and
    `translator.json`, which says how the caller prepares words. Raises UserError for a model with
    parts that the graphs cannot express, for a directory that cannot be written, and without the
    package onnx (the extra `export`).
    """
    _check(system)
    data = system.recipe.data
    graphs = {"encoder": _encoder(system), "decoder": _decoder(system)}
    with new_directory(directory) as unfinished:
        for name, graph in graphs.items():
            (unfinished / f"{name}.onnx").write_bytes(graph.SerializeToString())
        for name, vocabulary in system.vocabularies.items():
            vocabulary.write(unfinished / vocabulary_file(name))
        facts = {name: getattr(data, name) for name in ("target_token", "source_end",
                                                        "reverse_target")}
        (unfinished / "translator.json").write_text(json.dumps(facts) + "\n")


def _check(system: System) -> None:
    """Raise UserError for a model that the graphs cannot express, and if onnx is not installed."""
    config = system.recipe.model
    if type(config) is not ModelConfig:
        raise UserError(f"{FORMAT}: expected a translator of architecture luong, got "
                        f"{type(system.model).__name__}")
    for name, known in COVERED.items():
        if (value := getattr(config, name)) not in known:
            raise UserError(f"{FORMAT}: model.{name}: expected {' or '.join(map(str, known))}, got "
                            f"{value}")
    if find_spec("onnx") is None:
        raise UserError(f"{FORMAT}: {missing('onnx', 'export')}")


# --- the two graphs -------------------------------------------------------------------------------


def _encoder(system: System) -> Any:
    """The graph from the source to the decoder's first state (Algorithm 3, lines 2-4 and 7-9)."""
    config, parameters = system.recipe.model, _parameters(system)
    graph, sides = Graph(), ("forward", "backward")
    graph.input("source", np.int64, "S", "B")
    graph.input("lengths", np.int32, "B")
    lengths = graph.node("Cast", "lengths", to=graph.type_of(np.int64))

    def turned(x: str, **axes: int) -> str:
        """A value from written order to reading order, or back."""
        reverse = system.recipe.data.reverse_source
        return graph.node("ReverseSequence", x, lengths, **axes) if reverse else x

    x = graph.node("Gather", graph.constant(parameters["encoder.W_e"]),
                   turned("source", time_axis=0, batch_axis=1))           # (S, B, E)
    states: dict[str, list[str]] = {"h": [], "c": []}
    for number in range(config.layers):
        names = [f"encoder.{number}.{side}" for side in sides] if config.bidirectional else \
            [f"encoder.{number}"]
        x, *last = graph.recurrent(config.unit, names, parameters, x, "lengths")
        if config.bridge:
            ends = [graph.merged(graph.node("Transpose", end, perm=(1, 0, 2))) for end in last]
            joined = graph.node("Concat", *ends, axis=1)                   # (B, n He)
            out = graph.node("Tanh", graph.linear(joined, parameters[f"bridge.{number}.W"]))
            last = [graph.node("Unsqueeze", end, graph.axes(0))
                    for end in graph.split(out, len(last), axis=1)]
        for name, end in zip(states, last, strict=False):
            states[name].append(end)                                       # (1, B, H)
    for name, ends in states.items():
        if ends:
            graph.output(name, graph.node("Concat", *ends, axis=0), np.float32, "L", "B", "H")
    if config.input_feeding:
        top = graph.node("Squeeze", states["h"][-1], graph.axes(0))
        graph.output("fed", graph.node("Mul", top, graph.constant(np.float32(0))), np.float32,
                     "B", "H")
    if config.lexical:
        words = graph.node("Gather", graph.constant(parameters["encoder.W_e"]), "source")
        graph.output("words", graph.node("Transpose", words, perm=(1, 0, 2)), np.float32,
                     "B", "S", "E")
    if config.attention != "none":
        memory = turned(graph.node("Transpose", x, perm=(1, 0, 2)), time_axis=1, batch_axis=0)
        _, W_keys = _matrices(config, parameters)
        keys = memory if W_keys is None else graph.linear(memory, W_keys)
        steps = graph.node("Squeeze", graph.node("Shape", "source", start=0, end=1), graph.axes(0))
        places = graph.node("Range", graph.constant(np.int64(0)), steps,
                            graph.constant(np.int64(1)))                   # (S,)
        padding = graph.node("GreaterOrEqual", places,
                             graph.node("Unsqueeze", lengths, graph.axes(1)))
        graph.output("memory", memory, np.float32, "B", "S", "He")
        graph.output("keys", keys, np.float32, "B", "S", "A")
        graph.output("padding", padding, np.bool_, "B", "S")
    return graph.model("encoder")


def _decoder(system: System) -> Any:
    """The graph of one step of the decoder (Algorithm 5, lines 5-6)."""
    config, parameters, graph = system.recipe.model, _parameters(system), Graph()
    graph.input("tokens", np.int64, "N")
    names = ("h", "c")[: CELLS[config.unit].states]
    for name in names:
        graph.input(name, np.float32, "L", "N", "H")
    x = graph.node("Gather", graph.constant(parameters["decoder.W_e"]), "tokens")  # (N, E)
    if config.input_feeding:
        graph.input("fed", np.float32, "N", "H")
        x = graph.node("Concat", x, "fed", axis=1)                         # (4.2.3)
    x = graph.node("Unsqueeze", x, graph.axes(0))                          # (1, N, .), one step
    after: list[list[str]] = []
    before = zip(*(graph.split(name, config.layers, axis=0) for name in names), strict=True)
    for number, state in enumerate(before):
        x, *last = graph.recurrent(config.unit, [f"decoder.{number}"], parameters, x, "", state)
        after.append(last)
    out = graph.node("Squeeze", x, graph.axes(0))                          # (N, H)
    if config.attention != "none":
        out, align = _attended(graph, config, parameters, out)
    logits = graph.linear(graph.scaled(out, config.output_norm), parameters["output.W_hy"])
    if config.lexical:
        logits = graph.node("Add", logits, _lexical(graph, config, parameters, align))
    if config.output_bias:
        logits = graph.node("Add", logits, graph.constant(parameters["output.b"]))
    graph.output("logits", logits, np.float32, "N", "V")
    for name, ends in zip(names, zip(*after, strict=True), strict=True):
        graph.output(f"next_{name}", graph.node("Concat", *ends, axis=0), np.float32, "L", "N", "H")
    if config.input_feeding:
        graph.output("next_fed", out, np.float32, "N", "H")
    return graph.model("decoder")


def _attended(
    graph: Graph, config: ModelConfig, parameters: Mapping[str, np.ndarray], h: str
) -> tuple[str, str]:
    """h~ (N, H) of h (N, H), by scores, softmax and context (Eqs. 4.7, 4.5), and the alignment
    (N, 1, S), which is also an output of the graph."""
    graph.input("memory", np.float32, "N", "S", "He")
    graph.input("keys", np.float32, "N", "S", "A")
    graph.input("padding", np.bool_, "N", "S")
    energy, (W_query, _) = SCORES[_score(config)].energy, _matrices(config, parameters)
    q = graph.node("Unsqueeze", h if W_query is None else graph.linear(h, W_query), graph.axes(1))
    if energy is TANH:
        hidden = graph.node("Tanh", graph.node("Add", q, "keys"))          # (N, S, A)
        e = graph.node("MatMul", hidden, graph.constant(parameters["attention.v_a"]))
    else:
        product = graph.node("MatMul", q, graph.node("Transpose", "keys", perm=(0, 2, 1)))
        e = graph.node("Squeeze", product, graph.axes(1))                  # (N, S)
    if energy is SCALED:
        e = graph.node("Mul", e, graph.constant(np.float32(config.hidden_size**-0.5)))
    masked = graph.node("Where", "padding", graph.constant(np.float32(-np.inf)), e)
    align = graph.node("Softmax", masked, axis=1)
    graph.output("alignment", align, np.float32, "N", "S")
    align = graph.node("Unsqueeze", align, graph.axes(1))
    context = graph.node("MatMul", align, "memory")
    joined = graph.node("Concat", graph.node("Squeeze", context, graph.axes(1)), h, axis=1)
    return graph.node("Tanh", graph.linear(joined, parameters["attention.W_c"])), align


def _lexical(
    graph: Graph, config: ModelConfig, parameters: Mapping[str, np.ndarray], align: str
) -> str:
    """The lexical module's logits (N, V) (Nguyen, 3.2.4)."""
    graph.input("words", np.float32, "N", "S", "E")
    f = graph.node("Tanh", graph.node("Squeeze", graph.node("MatMul", align, "words"),
                                      graph.axes(1)))
    h = graph.node("Add", graph.node("Tanh", graph.linear(f, parameters["lexical.W"])), f)
    return graph.linear(graph.scaled(h, config.output_norm), parameters["output.W_l"])


def _score(config: ModelConfig) -> str:
    """The name of the score in `SCORES`."""
    return config.variant().score


def _matrices(
    config: ModelConfig, parameters: Mapping[str, np.ndarray]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The score's matrices of queries and keys; None stands for the identity."""
    prefix, W_c = "attention.", parameters["attention.W_c"]
    weights = {name.removeprefix(prefix): array for name, array in parameters.items()
               if name.startswith(prefix)}
    return SCORES[_score(config)].matrices(weights, W_c.shape[1] - W_c.shape[0])


def _parameters(system: System) -> dict[str, np.ndarray]:
    """The model's parameters on the host."""
    return {name: np.asarray(to_host(array), np.float32)
            for name, array in system.parameters.items()}


# --- building a graph -----------------------------------------------------------------------------


class Graph:
    """A graph to which nodes are added; a value is represented by its name."""

    def __init__(self) -> None:
        import onnx  # imported late, because only this command needs it

        self._onnx: Any = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def type_of(self, dtype: Any) -> int:
        """ONNX's number for a NumPy type."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def input(self, name: str, dtype: Any, *axes: str) -> None:
        """Add an input; axes: the names of its sizes."""
        self._inputs.append(self._value(name, dtype, axes))

    def output(self, name: str, value: str, dtype: Any, *axes: str) -> None:
        """Make a value an output of the graph, under a name."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, axes))

    def _value(self, name: str, dtype: Any, axes: Sequence[str]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self.type_of(dtype), axes)

    def constant(self, array: Any) -> str:
        """Add an array as a constant; return its name."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def axes(self, axis: int) -> str:
        """Add an axis as the constant that Squeeze and Unsqueeze read."""
        return self.constant(np.array([axis]))

    def nodes(self, operator: str, inputs: Sequence[str], count: int, **attributes: Any
              ) -> list[str]:
        """Add a node with several values; return their names."""
        names = [f"{operator}_{len(self._nodes)}_{k}" for k in range(count)]
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, names, **attributes))
        return names

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one value; return its name."""
        return self.nodes(operator, inputs, 1, **attributes)[0]

    def split(self, x: str, count: int, axis: int) -> list[str]:
        """A value split into equal parts along an axis."""
        return self.nodes("Split", [x], count, axis=axis, num_outputs=count)

    def linear(self, x: str, W: np.ndarray) -> str:
        """W x for each row of x (..., k); W: (m, k)."""
        return self.node("MatMul", x, self.constant(np.ascontiguousarray(W.T)))

    def scaled(self, x: str, length: float | None) -> str:
        """Rows of x scaled to a length (Nguyen 3.6); with None, x itself."""
        if length is None:
            return x
        size = self.node("ReduceL2", x, self.axes(-1))
        free = self.node("Max", size, self.constant(np.float32(EPS)))
        return self.node("Mul", self.node("Div", x, free), self.constant(np.float32(length)))

    def merged(self, x: str) -> str:
        """A value (..., D, H) reshaped to (..., D H)."""
        lead = self.node("Shape", x, end=-2)
        shape = self.node("Concat", lead, self.constant(np.array([-1])), axis=0)
        return self.node("Reshape", x, shape)

    def recurrent(
        self, unit: str, names: Sequence[str], parameters: Mapping[str, np.ndarray], x: str,
        lengths: str, state: Sequence[str] = (),
    ) -> list[str]:
        """The states (T, B, He) of a recurrent layer over x (T, B, k), and the last ones (D, B, H).

        names: the prefix of the parameters for each direction. state: the first states, zeros by
        default.
        """
        cell = CELLS[unit]
        assert cell.onnx is not None  # `COVERED`
        operator, blocks, signs, attributes = cell.onnx
        H = len(parameters[f"{names[0]}.W"]) // len(blocks)

        def ordered(rows: np.ndarray) -> np.ndarray:
            """Blocks of rows in the order and with the signs of ONNX's gates."""
            return np.concatenate([sign * rows[k * H : (k + 1) * H]
                                   for k, sign in zip(blocks, signs, strict=True)])

        W = np.stack([ordered(parameters[f"{name}.W"]) for name in names])  # (D, G, k + H)
        G = W.shape[1]
        biases = [parameters.get(f"{name}.b", np.zeros(G, np.float32)) for name in names]
        b = np.zeros((len(names), 2 * G), np.float32)  # of the products with x and with the state
        for row, bias in zip(b, biases, strict=True):
            row[:G] = ordered(bias)
            row[2 * G - (len(bias) - G):] = bias[G:]
        inputs = [x, self.constant(W[..., :-H]), self.constant(W[..., -H:]), self.constant(b),
                  lengths, *state]
        direction = "bidirectional" if len(names) == 2 else "forward"
        states, *last = self.nodes(operator, inputs, 1 + cell.states, hidden_size=H,
                                   direction=direction, **attributes)
        return [self.merged(self.node("Transpose", states, perm=(0, 2, 1, 3))), *last]

    def model(self, name: str) -> Any:
        """The finished graph as ONNX's model."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(graph, ir_version=IR_VERSION, producer_name="nmt",
                                  opset_imports=[helper.make_opsetid("", OPSET)])
        self._onnx.checker.check_model(model)
        return model
