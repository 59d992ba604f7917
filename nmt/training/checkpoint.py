"""Checkpoints: flat arrays and one JSON document in a safetensors file, written all or nothing.

Names carry a prefix: `parameters/encoder.0.W`, `optimizer/m/encoder.0.W`. The safetensors
header holds a single metadata entry, a JSON string with the format's version, the caller's
document and how masks are packed (`nmt.training.masks`), because safetensors maps strings to
strings and promises no order of keys. The version is that of a whole run directory: it goes up
where recipes, vocabularies or names of parameters are no longer read as they were written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from backend import Array, to_device, to_host
from backend.errors import UserError
from backend.files import write_file
from nmt.training import tensor_file
from nmt.training.masks import MASKS, PARAMETERS, pack, unpack

__all__ = ["CARRIED", "MASKS", "OPTIMIZER", "PARAMETERS", "VERSION", "Checkpoint",
           "check_parameters", "load", "load_metadata", "parameters_of", "save"]

VERSION = 3
OPTIMIZER = "optimizer/"
CARRIED = "carried/"  # states that a model hands from batch to batch
_KEY = "nmt-checkpoint"  # the one metadata entry


class Checkpoint(NamedTuple):
    """What a file holds."""

    arrays: dict[str, np.ndarray]  # prefixed name -> host array
    metadata: dict[str, Any]

    def select(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names begin with `prefix`, without it."""
        return {name[len(prefix):]: array for name, array in self.arrays.items()
                if name.startswith(prefix)}


def save(path: str | os.PathLike[str], arrays: Mapping[str, Array],
         metadata: Mapping[str, Any], *, sparse: bool = False) -> None:
    """Write a checkpoint so that `path` holds either the old file or the whole new one.

    Arguments: path; arrays, prefixed name -> array, of any backend; metadata, JSON-able; sparse,
    whether of a masked parameter only what its mask keeps is written (it is read back whole).
    Raises UserError when the file cannot be written; the old file then stays, and no other: see
    `backend.files.write_file`.
    """
    # Contiguous, as tensor_file needs it; ascontiguousarray would turn a 0-d array into a 1-d one.
    host = {name: np.asarray(to_host(array), order="C") for name, array in arrays.items()}
    host, packing = pack(host, sparse)
    header = {_KEY: json.dumps({"version": VERSION, "metadata": metadata} | packing)}
    write_file(path, tensor_file.parts(host, header))


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint; its arrays are on the host and may be written to.

    Raises UserError when the file is missing, damaged, or not a checkpoint of this version.
    """
    path = Path(path)
    with _opened(path) as file:
        arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}
        document = _document(path, file.metadata() or {})
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


def parameters_of(saved: Checkpoint, path: str | os.PathLike[str],
                  template: Mapping[str, Array]) -> dict[str, Array]:
    """The parameters of a checkpoint, on the device in use, in the order of `template`.

    Arguments: saved, read from path; template, the model's parameters, of which only names and
    shapes matter. Raises UserError as `check_parameters` does.
    """
    found = saved.select(PARAMETERS)
    check_parameters(path, found, template)
    return {name: to_device(found[name]) for name in template}


def check_parameters(path: str | os.PathLike[str], found: Mapping[str, Array],
                     template: Mapping[str, Array]) -> None:
    """Raise UserError unless `found` has exactly the names and shapes of `template`."""
    _check_none(path, "lacks", (name for name in template if name not in found))
    _check_none(path, "holds, beyond the model's,", (n for n in found if n not in template))
    for name, array in template.items():
        if found[name].shape != array.shape:
            raise UserError(f"{path}: parameter {name!r}: the model expects shape "
                            f"{array.shape}, the file holds {found[name].shape}")


def _check_none(path: str | os.PathLike[str], verb: str, names: Iterable[str]) -> None:
    """Raise UserError that lists `names`, if there are any."""
    listed = sorted(names)
    if listed:
        shown = ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
        raise UserError(f"{path}: the file {verb} {len(listed)} parameter(s): {shown}")


def _document(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """What the safetensors header says, the caller's "metadata" in it; its version checked."""
    if _KEY not in header:
        raise UserError(f"{path}: expected the metadata entry {_KEY!r}, found "
                        f"{sorted(header) or 'no metadata'}: a safetensors file of another program")
    try:
        document = json.loads(header[_KEY])
        version, _ = document["version"], document["metadata"]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: the metadata entry {_KEY!r} is damaged: {error!r}") from error
    if version != VERSION:
        raise UserError(f"{path}: expected format {VERSION}, found {version}")
    return document
