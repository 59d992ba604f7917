"""Checkpoints: flat arrays and one JSON document in a safetensors file, written all or nothing.

Names carry a prefix: `parameters/encoder.0.W`, `optimizer/m/encoder.0.W`. The safetensors
header holds two metadata entries: a JSON string with the format's version, the caller's document
and how masks are packed (`nmt.training.masks`), because safetensors maps strings to strings and
promises no order of keys; and a checksum of that string and all arrays, so that a single flipped
bit is found. Older files have no checksum. The version is that of a whole run directory: it is
raised when recipes, vocabularies or names of parameters of older runs can no longer be read.

Files are not trusted: reading one either raises UserError or returns arrays and a document of the
form that the program writes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from backend import Array, to_device, to_host
from backend.errors import UserError
from nmt.console.messages import several
from nmt.files import write_file
from nmt.training import tensor_file
from nmt.training.masks import MASKS, PARAMETERS, pack, unpack

__all__ = ["CARRIED", "MASKS", "OPTIMIZER", "PARAMETERS", "TRAINED", "VERSION", "Checkpoint",
           "check_parameters", "load", "load_metadata", "parameters_of", "prefixed", "save"]

VERSION = 3
OPTIMIZER = "optimizer/"
TRAINED = "trained/"  # the parameters that a resume trains, where `parameters/` are their average
CARRIED = "carried/"  # states that a model hands from batch to batch
_KEY = "nmt-checkpoint"  # the metadata entry with the document
_CHECKSUM = "nmt-checksum"  # the metadata entry with the checksum
# Keys of a document that are read without a check of their type, and so are checked here.
_MAPPINGS = ("", "model", "model.recipe", "model.pruning", "training", "training.options",
             "training.environment",
             "training.counters", "training.meter", "training.schedule", "training.data_rng",
             "training.dropout_rng", "scores")
_NUMBERS = ("epoch", "step", "training.counters.epoch", "training.counters.step",
            "training.counters.position")
_OF_NUMBERS = ("training.counters", "training.meter", "training.schedule")  # or null


class Checkpoint(NamedTuple):
    """The content of a checkpoint file."""

    arrays: dict[str, np.ndarray]  # prefixed name -> host array
    metadata: dict[str, Any]

    def select(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names begin with `prefix`, without it."""
        return {name[len(prefix):]: array for name, array in self.arrays.items()
                if name.startswith(prefix)}


def prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays under their names in a checkpoint."""
    return {prefix + name: array for name, array in arrays.items()}


def save(path: str | os.PathLike[str], arrays: Mapping[str, Array],
         metadata: Mapping[str, Any], *, sparse: bool = False) -> None:
    """Write a checkpoint so that `path` holds either the old file or the whole new one.

    Arguments: path; arrays, prefixed name -> array, of any backend; metadata, JSON-able; sparse,
    whether of a masked parameter only what its mask keeps is written (it is read back whole).
    Raises UserError when the file cannot be written; the old file then stays, and no other: see
    `nmt.files.write_file`.
    """
    # Contiguous, as tensor_file requires; ascontiguousarray would turn a 0-d array into a 1-d one.
    host = {name: np.asarray(to_host(array), order="C") for name, array in arrays.items()}
    host, packing = pack(host, sparse)
    document = json.dumps({"version": VERSION, "metadata": metadata} | packing)
    header = {_KEY: document, _CHECKSUM: _checksum(host, document)}
    write_file(path, tensor_file.parts(host, header))


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint; its arrays are on the host and may be written to.

    Raises UserError when the file is missing, damaged, or not a checkpoint of this version.
    """
    path = Path(path)
    with _opened(path) as file:
        header = file.metadata() or {}
        document = _document(path, header)
        arrays = {name: _array(path, file, name) for name in file.keys()}
    if _CHECKSUM in header and header[_CHECKSUM] != _checksum(arrays, header[_KEY]):
        raise UserError(f"{path}: damaged: its content is not that of its checksum")
    return Checkpoint(unpack(path, arrays, document), document["metadata"])


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document of a checkpoint without its arrays. Errors as `load`."""
    path = Path(path)
    with _opened(path) as file:
        return _document(path, file.metadata() or {})["metadata"]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file to read from."""
    if not path.is_file():
        raise UserError(f"{path}: expected a checkpoint file, found "
                        + ("a directory" if path.is_dir() else "nothing"))
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: expected a safetensors file, found a damaged one or another "
                        f"format: {error}") from error


def parameters_of(saved: Checkpoint, path: str | os.PathLike[str], template: Mapping[str, Array],
                  prefix: str = PARAMETERS) -> dict[str, Array]:
    """The parameters of a checkpoint, on the device in use, in the order of `template`.

    Arguments: saved, read from path; template, the model's parameters, of which only names and
    shapes matter; prefix, of their names in the file. Raises UserError as `check_parameters` does.
    """
    arrays = saved.select(prefix)
    check_parameters(path, arrays, template)
    return {name: to_device(arrays[name]) for name in template}


def check_parameters(path: str | os.PathLike[str], arrays: Mapping[str, Array],
                     template: Mapping[str, Array]) -> None:
    """Raise UserError unless `arrays` has exactly the names, shapes and dtypes of `template`, and
    numbers that are finite."""
    _check_none(path, "lacks", (name for name in template if name not in arrays))
    _check_none(path, "holds, beyond the model's,", (n for n in arrays if n not in template))
    for name, array in template.items():
        if arrays[name].shape != array.shape:
            raise UserError(f"{path}: parameter {name!r}: the model expects shape "
                            f"{array.shape}, the file holds {arrays[name].shape}")
        check_array(path, f"parameter {name!r}", arrays[name], array.dtype)


def check_array(path: str | os.PathLike[str], description: str, array: Array, dtype: Any) -> None:
    """Raise UserError unless an array of a file has this dtype and only finite numbers."""
    if array.dtype != dtype:
        raise UserError(f"{path}: {description}: expected {dtype}, found {array.dtype}")
    if not np.isfinite(array).all():
        bad = int(np.count_nonzero(~np.isfinite(array)))
        raise UserError(f"{path}: {description}: expected finite numbers, found {bad} of "
                        f"{array.size} that are infinite or NaN")


def _check_none(path: str | os.PathLike[str], verb: str, names: Iterable[str]) -> None:
    """Raise UserError that lists `names`, if there are any."""
    listed = sorted(names)
    if listed:
        shown = ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
        raise UserError(f"{path}: the file {verb} {several(len(listed), 'parameter')}: {shown}")


def _document(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """The document in the safetensors header, with the caller's "metadata". Its version is
    checked."""
    if _KEY not in header:
        raise UserError(f"{path}: expected the metadata entry {_KEY!r}, found "
                        f"{sorted(header) or 'no metadata'}: a safetensors file of another program")
    if unknown := header.keys() - {_KEY, _CHECKSUM}:
        raise UserError(f"{path}: expected no metadata entry {min(unknown)!r}")
    try:
        document = json.loads(header[_KEY])
        version, metadata = document["version"], document["metadata"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path}: the metadata entry {_KEY!r} is damaged: {error!r}") from error
    if version != VERSION:
        raise UserError(f"{path}: expected format {VERSION}, found {version!r}")
    _check_shape(path, metadata)
    return document


def _check_shape(path: Path, metadata: Any) -> None:
    """Raise UserError unless the keys that are read unchecked elsewhere have the expected types."""
    for key in _MAPPINGS:
        value = _at(metadata, key, {})
        if not isinstance(value, dict):
            raise _wrong(path, key, "a mapping", value)
    for key in _NUMBERS:
        value = _at(metadata, key, 0)
        if type(value) is not int or not 0 <= value < 2**63:
            if not (key == "epoch" and value is None):  # of a checkpoint without it
                raise _wrong(path, key, "an integer of at least 0", value)
    for key in _OF_NUMBERS:
        for value in _leaves(_at(metadata, key, {})):
            if not (value is None or _is_number(value)):
                raise _wrong(path, key, "numbers", value)
    if _at(metadata, "training.schedule.rate", 0) in (math.inf, -math.inf):
        raise _wrong(path, "training.schedule", "a finite rate", math.inf)


def _is_number(value: Any) -> bool:
    """Whether a value is an integer of 64 bits, or a float other than NaN: the best perplexity so
    far may be infinite."""
    return abs(value) < 2**63 if isinstance(value, int) else (
        isinstance(value, float) and value == value)


def _leaves(value: Any) -> Iterator[Any]:
    """The values in nested mappings and lists."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def _at(metadata: Any, key: str, default: Any) -> Any:
    """The value of a dotted key; the default where there is none."""
    for name in key.split(".") if key else ():
        if not isinstance(metadata, dict) or name not in metadata:
            return default
        metadata = metadata[name]
    return metadata


def _wrong(path: Path, key: str, expected: str, value: Any) -> UserError:
    """The error to raise for the value of a key of a document."""
    return UserError(f"{path}: metadata {key or 'of the checkpoint'}: expected {expected}, found "
                     f"{value!r:.60}")


def _array(path: Path, file: Any, name: str) -> np.ndarray:
    """An array of the file."""
    try:
        array = np.array(file.get_tensor(name))
        if array.dtype.isbuiltin != 1:  # of another package, where one is imported
            raise TypeError(str(array.dtype))
    except (TypeError, AttributeError) as error:  # a dtype of safetensors that NumPy has not
        raise UserError(f"{path}: {name!r}: expected an array of a dtype that NumPy has, got: "
                        f"{error}") from None
    return array


def _checksum(arrays: Mapping[str, np.ndarray], document: str) -> str:
    """A digest of the content of a file."""
    digest = hashlib.sha256(document.encode("utf-8", "surrogatepass"))
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name}\n{array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
