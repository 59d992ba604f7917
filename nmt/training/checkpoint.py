"""Checkpoints: arrays and a JSON document in a safetensors file, written completely or not at all.

The names of arrays have a prefix: `parameters/encoder.0.W`, `optimizer/m/encoder.0.W`. The header
of the safetensors file has two metadata entries. One is a JSON string with the version of the
format, the caller's document, and how masks are packed (`nmt.training.masks`); it is a string
because safetensors maps strings to strings and promises no order of keys. The other is a checksum
of that string and all arrays, which finds a single flipped bit. Older files have no checksum. The
version is that of a whole run directory. It is raised when recipes, vocabularies or names of
parameters of older runs can no longer be read.

Files are not trusted: reading one either raises UserError, or returns arrays and a document of the
form that this program writes.
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
TRAINED = "trained/"  # the parameters that a resume trains, if `parameters/` are their average
CARRIED = "carried/"  # states that a model carries from batch to batch
_KEY = "nmt-checkpoint"  # the metadata entry with the document
_CHECKSUM = "nmt-checksum"  # the metadata entry with the checksum
# Keys of a document whose types are checked here, since they are used without a check elsewhere.
_MAPPINGS = ("", "model", "model.recipe", "model.pruning", "training", "training.options",
             "training.environment",
             "training.counters", "training.meter", "training.schedule", "training.data_rng",
             "training.dropout_rng", "scores")
_NUMBERS = ("epoch", "step", "training.counters.epoch", "training.counters.step",
            "training.counters.position")
_OF_NUMBERS = ("training.counters", "training.meter", "training.schedule")  # numbers or null only


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
    """Write a checkpoint, so that `path` holds either the old file or the whole new one.

    arrays: prefixed name -> array, of any backend. metadata: JSON values. sparse: whether only the
    kept values of masked parameters are written; reading restores the zeros. Raises UserError if
    the file cannot be written; the old file then stays: see `nmt.files.write_file`.
    """
    # Contiguous, as tensor_file requires; ascontiguousarray would turn a 0-d array into a 1-d one.
    host = {name: np.asarray(to_host(array), order="C") for name, array in arrays.items()}
    host, packing = pack(host, sparse)
    document = json.dumps({"version": VERSION, "metadata": metadata} | packing)
    header = {_KEY: document, _CHECKSUM: _checksum(host, document)}
    write_file(path, tensor_file.parts(host, header))


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint. Its arrays are on the host and may be written to.

    Raises UserError if the file is missing, damaged, or not a checkpoint of this version.
    """
    path = Path(path)
    with _opened(path) as file:
        header = file.metadata() or {}
        document = _document(path, header)
        arrays = {name: _array(path, file, name) for name in file.keys()}
    if _CHECKSUM in header and header[_CHECKSUM] != _checksum(arrays, header[_KEY]):
        raise UserError(f"{path}: damaged: its content does not match its checksum")
    return Checkpoint(unpack(path, arrays, document), document["metadata"])


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the document of a checkpoint without its arrays. Errors as `load`."""
    path = Path(path)
    with _opened(path) as file:
        return _document(path, file.metadata() or {})["metadata"]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Context of an open safetensors file. Raises UserError if it cannot be read."""
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

    saved: the checkpoint read from path. template: arrays with the names, shapes and dtypes of the
    model's parameters. prefix: of their names in the file. Raises UserError as `check_parameters`.
    """
    arrays = saved.select(prefix)
    check_parameters(path, arrays, template)
    return {name: to_device(arrays[name]) for name in template}


def check_parameters(path: str | os.PathLike[str], arrays: Mapping[str, Array],
                     template: Mapping[str, Array]) -> None:
    """Raise UserError unless `arrays` has exactly the names, shapes and dtypes of `template`, and
    only finite numbers."""
    _check_none(path, "lacks", (name for name in template if name not in arrays))
    _check_none(path, "holds, beyond the model's,", (n for n in arrays if n not in template))
    for name, array in template.items():
        if arrays[name].shape != array.shape:
            raise UserError(f"{path}: parameter {name!r}: the model expects shape "
                            f"{array.shape}, the file holds {arrays[name].shape}")
        check_array(path, f"parameter {name!r}", arrays[name], array.dtype)


def check_array(path: str | os.PathLike[str], description: str, array: Array, dtype: Any) -> None:
    """Raise UserError unless an array of a file has this dtype and only finite numbers.
    description: what the error calls the array."""
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
    """The document in the safetensors header, which has the caller's "metadata". Raises UserError
    for another version or form."""
    if _KEY not in header:
        raise UserError(f"{path}: expected the metadata entry {_KEY!r}, found "
                        f"{sorted(header) or 'no metadata'}: a safetensors file of another program")
    if unknown := header.keys() - {_KEY, _CHECKSUM}:
        raise UserError(f"{path}: unknown metadata entry {min(unknown)!r}")
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
    """Raise UserError unless the keys that are used without a check elsewhere have the expected
    types."""
    for key in _MAPPINGS:
        value = _at(metadata, key, {})
        if not isinstance(value, dict):
            raise _wrong(path, key, "a mapping", value)
    for key in _NUMBERS:
        value = _at(metadata, key, 0)
        if type(value) is not int or not 0 <= value < 2**63:
            if not (key == "epoch" and value is None):  # some checkpoints have no epoch
                raise _wrong(path, key, "an integer of at least 0", value)
    for key in _OF_NUMBERS:
        for value in _leaves(_at(metadata, key, {})):
            if not (value is None or _is_number(value)):
                raise _wrong(path, key, "numbers", value)
    if _at(metadata, "training.schedule.rate", 0) in (math.inf, -math.inf):
        raise _wrong(path, "training.schedule", "a finite rate", math.inf)


def _is_number(value: Any) -> bool:
    """Whether a value is an integer of 64 bits, or a float other than NaN. The best perplexity so
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
    """The value of a dotted key; the default if there is none."""
    for name in key.split(".") if key else ():
        if not isinstance(metadata, dict) or name not in metadata:
            return default
        metadata = metadata[name]
    return metadata


def _wrong(path: Path, key: str, expected: str, value: Any) -> UserError:
    """The error for an invalid value of a document's key."""
    return UserError(f"{path}: metadata {key or 'of the checkpoint'}: expected {expected}, found "
                     f"{value!r:.60}")


def _array(path: Path, file: Any, name: str) -> np.ndarray:
    """An array of the file."""
    try:
        array = np.array(file.get_tensor(name))
        if array.dtype.isbuiltin != 1:  # the dtype of another package
            raise TypeError(str(array.dtype))
    except (TypeError, AttributeError) as error:  # a dtype that NumPy does not have
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
