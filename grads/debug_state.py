"""`grads debug-state` writes every tensor of a model into a safetensors file, by name.

The model runs forward and backward on one sentence. An implementation in another language can be
compared with the file, tensor by tensor.

The tensors are those of the model's derivation (`grads.derivations`), run by the stepper's tracer
in float64 with the checkpoint's parameters; vectors are columns (n, 1).

| name | is |
|---|---|
| `batch/x`, `batch/y` | ids of the words, as the derivation takes them |
| `loss` | in nats, summed over the words |
| `parameters/NAME`, `gradients/NAME` | a parameter, and the gradient of the loss |
| `forward/FUNCTION LOOPS/VARIABLE` | what a line assigned: `forward/lstm t=2 l=1/h_hat` |
| `backward/FUNCTION LOOPS/VARIABLE` | the same, backward: `backward/lstm_grad t=2 l=1/dh_hat` |

FUNCTION is the function with the line, LOOPS the indices of the loops around it, including those of
its callers. A name that is assigned again in the same iteration ends in #2, #3, ...
The file's metadata has `lines`: as JSON, name -> the statement with its file, line and equations.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from grads.stepper.trace import Trace
from nmt.checkpoint_option import add_checkpoint
from nmt.console import progress
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.files import write_file
from nmt.training import tensor_file

ALL = 1 << 62  # most elements of an array that a trace keeps


def add_debug_state(parser: argparse.ArgumentParser) -> None:
    """The arguments of `grads debug-state`."""
    parser.description = (
        "Run a trained model forward and backward on one sentence, and write every tensor by name "
        "into a safetensors file: parameters, activations and all gradients.")
    parser.add_argument("model", type=Path, metavar="RUN", help="the run directory of the model")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", required=True,
                        help="write the file here")
    parser.add_argument("--sentence", metavar="WORDS",
                        help="run on this sentence, words separated by spaces")
    parser.add_argument("--target", metavar="WORDS",
                        help="use this translation (default: the model's greedy one)")
    add_checkpoint(parser)


def run_debug_state(options: argparse.Namespace) -> None:
    """`grads debug-state`."""
    with progress.busy(f"tracing {options.model}"):
        arrays, metadata = debug_state(
            options.model, options.sentence, options.target, options.checkpoint)
        write_file(options.output, tensor_file.parts(arrays, metadata))
    print(f"{options.output}: written, {several(len(arrays), 'tensor')}")


def debug_state(
    directory: Path, sentence: str | None = None, target: str | None = None,
    checkpoint: str = "best",
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors by name, and the metadata, both as the module describes.

    Arguments: directory of a run; sentence and target, words between spaces; checkpoint.
    Raises `UserError` as `grads.stepper.explorer.models.open_model` does.
    """
    from grads.stepper.explorer.models import open_model

    model = open_model(directory, sentence, target, checkpoint)
    run = model.derivation.run(keep=ALL)
    arrays: dict[str, np.ndarray] = {"loss": np.asarray(run.loss(run.forward.result))}
    names = inspect.signature(model.derivation.forward).parameters
    for name, value in zip(names, run.example.arguments, strict=False):
        if isinstance(value, Mapping) and name == "parameters":
            arrays |= {f"parameters/{key}": array for key, array in value.items()}
        elif name in ("x", "y"):
            arrays[f"batch/{name}"] = np.asarray(value, np.int64)
    result = run.backward.result
    gradients = next(mapping for mapping in (result if isinstance(result, tuple) else (result,))
                     if isinstance(mapping, Mapping))
    arrays |= {f"gradients/{key}": array for key, array in gradients.items()}
    lines: dict[str, str] = {}
    for name, value, line in (*assigned("forward", run.forward),
                              *assigned("backward", run.backward)):
        arrays[name], lines[name] = value, line
    metadata = {"title": run.title,
                "notes": "\n".join(model.notes), "lines": json.dumps(lines)}
    return {name: np.ascontiguousarray(array).reshape(np.shape(array))
            for name, array in arrays.items()}, metadata


def assigned(side: str, trace: Trace) -> Iterator[tuple[str, np.ndarray, str]]:
    """The name, value and line of every number and array that a line assigned, in their order.

    Arguments of a call, and other names for them, are left out.
    """
    seen: dict[str, int] = {}
    for step in trace.steps:
        if step.kind != "assign":
            continue
        loops = "".join(f" {index}={value}" for index, value in step.loops)
        line = f"{Path(step.file).name}:{step.line}: {step.text} {' '.join(step.equations)}".strip()
        for target in step.targets:
            is_argument = target.same_as and trace.steps[target.same_as[0]].kind == "call"
            kind = np.asarray(target.value).dtype.kind
            if is_argument or target.shape is None or kind not in "fiu":
                continue
            name = f"{side}/{step.function}{loops}/{target.name}"
            seen[name] = seen.get(name, 0) + 1
            yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), np.asarray(
                target.value), line
