"""Writing the safetensors format array by array.

The library's own writer makes a file that only its owner may read, leaves a partial file when it is
killed, and does not flush the file. A file has 8 bytes with the length of a JSON header, the header
padded with spaces, and the arrays' memory in the order of the header.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np

from nmt.files import Part

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
         "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16",
         "uint8": "U8", "bool": "BOOL"}
ALIGNED = 8  # bytes: alignment of the first array, and so of each array to its item


def parts(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> Iterator[Part]:
    """The pieces of a file. Those of arrays are views of the arrays' memory.

    arrays: contiguous, in the machine's byte order, which on x86 and ARM is the format's. metadata:
    for the header. Arrays with larger items come first, as in the library, so that all are aligned.
    Raises ValueError for an array that is not contiguous or has a dtype unknown to the format.
    """
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name in order:
        array, start = arrays[name], end
        if array.dtype.name not in NAMES or not array.flags.c_contiguous:
            raise ValueError(f"{name}: expected a contiguous array of {', '.join(NAMES)}, got "
                             f"{array.dtype}")
        end += array.nbytes
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        if arrays[name].size:
            yield arrays[name].reshape(-1).view(np.uint8).data
