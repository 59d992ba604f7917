"""Checkpoints that no run wrote: with other values, with odd values, or with damaged bytes."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz.mutate import mutated, odd_json

from backend.errors import UserError
from nmt.data.batches import TextBatches
from nmt.models.translator import ModelConfig, Translator
from nmt.training import checkpoint, tensor_file
from nmt.training.batch_source import Training
from nmt.training.options import TrainOptions
from nmt.training.run import LOG, Run
from nmt.training.trainer import Trainer

Arrays = dict[str, np.ndarray]
MASKED = "decoder.W_e"
LARGE = (0.0, -0.0, 1e-45, 1e-38, 3e38, -3e38, 1.0)  # of float32
BEST = (None, 1.0, 4.5, 1e308, 0.0, float("inf"))
BYTES, ODD_ARRAYS, ODD_DOCUMENTS = 0.2, 0.4, 0.6  # cumulated shares; other inputs are valid


@cache
def _model() -> tuple[Translator, Arrays]:
    model = Translator(ModelConfig(layers=1, hidden_size=2, embedding_size=2), 4, 4)
    return model, model.initial_parameters(np.random.default_rng(1))


def _trainer(directory: Path) -> Trainer:
    model, parameters = _model()
    options = TrainOptions(optimizer="adam", schedule="plateau")
    return Trainer(model, {name: array.copy() for name, array in parameters.items()},
                   Training(TextBatches([([2], [3])], 1, False), lambda _: {"perplexity": 1.0}),
                   options, Run(directory, metadata={
                       "kind": "translator", "source": "x", "recipe": {"model.layers": 1}}))


@cache
def _checkpoint() -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the document of a run after its first update."""
    parameters = _model()[1]
    arrays = {f"parameters/{name}": array for name, array in parameters.items()}
    for kind in ("m", "v"):
        arrays |= {f"optimizer/{kind}/{name}": np.zeros_like(array)
                   for name, array in parameters.items()}
    arrays |= {f"optimizer/t/{name}": np.array(1) for name in parameters}
    trainer = _trainer(Path("."))
    trainer.counters.step = 1
    trainer.state.meter.start()
    trainer.state.meter.add(np.float64(3.5), 1.25, 4, "")
    caught: list[Any] = []
    save, checkpoint.save = checkpoint.save, lambda *given, **_: caught.append(given)
    try:
        trainer._save_last()
    finally:
        checkpoint.save = save
    mask = np.ones(parameters[MASKED].shape, bool)
    return arrays | {checkpoint.MASKS + MASKED: mask}, {"epoch": 1, **caught[0][2]}


# --- inputs ---------------------------------------------------------------------------------------


def make_checkpoint(rng: Random) -> bytes:
    """A checkpoint with changed bytes; or with other values, in which an array or the document may
    be odd, and a matching checksum."""
    how = rng.random()
    if how < BYTES:
        return mutated(rng, _seeds())
    arrays, metadata = _other_arrays(rng), _other_document(rng)
    if how < ODD_ARRAYS:
        _odd_array(rng, arrays)
    packing: dict[str, Any] = {}
    with suppress(IndexError, KeyError, TypeError, ValueError):  # share of odd arrays
        arrays, packing = checkpoint.pack(arrays, rng.random() < 0.5)
    document: Any = {"version": checkpoint.VERSION, "metadata": metadata} | packing
    odd = ODD_ARRAYS < how < ODD_DOCUMENTS
    text = odd_json(rng, document) if odd else json.dumps(document)
    if odd and rng.random() < 0.2:
        text = mutated(rng, [text.encode()]).decode("utf-8", "replace")
    return _file(arrays, text, rng.random() < 0.95)


def _file(arrays: Arrays, document: str, known: bool = True) -> bytes:
    """The bytes of a file. known: whether it has a checksum, as newer files do."""
    header = {"nmt-checkpoint": document}
    if known:
        header["nmt-checksum"] = checkpoint._checksum(arrays, document)
    return b"".join(map(bytes, tensor_file.parts(arrays, header)))


@cache
def _seeds() -> list[bytes]:
    arrays, metadata = _checkpoint()
    arrays, packing = checkpoint.pack(arrays, False)
    document = json.dumps({"version": checkpoint.VERSION, "metadata": metadata} | packing)
    few = {name: arrays[name] for name in sorted(arrays)[:3]}
    small = json.dumps({"version": checkpoint.VERSION, "metadata": {}})
    return [_file(arrays, document), _file(few, small, False)]


def _other_arrays(rng: Random) -> Arrays:
    """Arrays that a run could have: any finite numbers and updates, and masks with zeros where they
    prune.
    """
    arrays = {name: array.copy() for name, array in _checkpoint()[0].items()}
    for name, array in arrays.items():
        if name.startswith("optimizer/t/"):
            array[...] = rng.choice((1, 1, 2, 1000, 2**31, 2**62))
        elif array.dtype == bool:
            array.flat = [rng.random() < 0.7 for _ in range(array.size)]
        elif rng.random() < 0.3:
            values = [rng.choice(LARGE) if rng.random() < 0.3 else rng.gauss(0, 1)
                      for _ in range(array.size)]
            array.flat = np.abs(values) if name.startswith("optimizer/v/") else values
    arrays[checkpoint.PARAMETERS + MASKED][~arrays[checkpoint.MASKS + MASKED]] = 0
    if rng.random() < 0.5:
        del arrays[checkpoint.MASKS + MASKED]
    return arrays


def _other_document(rng: Random) -> dict[str, Any]:
    """A document that a run could have: each part unchanged, or with other values of its kind."""
    metadata = copy.deepcopy(_checkpoint()[1])
    training = metadata["training"]
    sums = [rng.uniform(0, 1e4), rng.randrange(10**6), rng.randrange(50)] * 2
    others = {
        "counters": {"epoch": rng.randrange(1, 14), "position": rng.randrange(3),
                     "step": rng.choice((1, 5, 10**6, 2**62)), "best": rng.choice(BEST)},
        "meter": {"tasks": dict.fromkeys(rng.choice(((), ("",), ("a", "b"))), sums),
                  "window_seconds": [rng.random(), rng.random()],
                  "seconds": [rng.uniform(0, 1e9), 0.0]},
        "schedule": {"rate": 10 ** rng.uniform(-9, 3), "best": rng.choice(BEST),
                     "waited": rng.randrange(5)},
        "environment": {"NumPy": "1.0", "BLAS threads": rng.randrange(99), "x": "\x1b"},
    }
    for generator in ("data_rng", "dropout_rng"):
        others[generator] = {"bit_generator": "PCG64", "has_uint32": rng.randrange(2),
                             "uinteger": rng.randrange(2**32),
                             "state": {"state": rng.randrange(2**128),
                                       "inc": rng.randrange(2**127) * 2 + 1}}
    training |= {key: value for key, value in others.items() if rng.random() < 0.5}
    metadata |= {"epoch": rng.choice((1, 7, None)), "scores": {"perplexity": rng.choice(BEST)}}
    return metadata


def _odd_array(rng: Random, arrays: Arrays) -> None:
    name = rng.choice(sorted(arrays))
    array, what = arrays[name], rng.randrange(7)
    if what == 0:
        del arrays[name]
    elif what == 1:
        kind = rng.choice(("float64", "float16", "int64", "int8", "uint8", "bool"))
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(kind)
    elif what == 2:
        arrays[name] = np.full_like(array, rng.choice((np.nan, np.inf)), dtype=np.float32)
    elif what == 3:
        arrays[name] = array.reshape(-1)[: rng.randrange(3)]
    elif what == 4:
        arrays[rng.choice(("", "x", "parameters/", "optimizer/m/x", "mask/x", "carried/0.0",
                           "carried/x", "optimizer/", "\x1b"))] = array
    elif what == 5:
        arrays[name] = array[None]
    else:
        arrays[name] = np.zeros((0, 3), np.float32)


# --- the reader -----------------------------------------------------------------------------------


def read_checkpoint(path: Path) -> None:
    """Read it as a command does, and as a resumed run does."""
    try:
        saved = checkpoint.load(path)
        parameters = _model()[1]
        checkpoint.parameters_of(saved, path, parameters)
    except UserError as error:
        assert str(path) in str(error)
    (path.parent / LOG).write_text('{"event": "update", "step": 1, "epoch": 1}\n')
    trainer = _trainer(path.parent)
    trainer.resume()
    schedule, meter = trainer.state.schedule, trainer.state.meter
    schedule.rate_at(1, 0.5), meter.close_window(), meter.close_epoch()
    schedule.evaluated(2.0), schedule.epoch_end(1)
