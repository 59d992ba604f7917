"""The checkpoints of the last epochs, which a run keeps in addition to its best and its last."""

from __future__ import annotations

import re
from pathlib import Path

SUFFIX = ".safetensors"
_NAME = re.compile(r"epoch-([0-9]{1,9})" + re.escape(SUFFIX))


def file_of(epoch: int) -> str:
    """The name of an epoch's checkpoint."""
    return f"epoch-{epoch}{SUFFIX}"


def drop(directory: Path, epoch: int) -> None:
    """Delete a run's checkpoint of an epoch, and its tasks' checkpoints of that epoch."""
    for path in (directory / file_of(epoch), *directory.glob(f"*/{file_of(epoch)}")):
        path.unlink(missing_ok=True)


def kept(directory: Path) -> list[Path]:
    """The checkpoints of epochs in a run directory, in the order of the epochs."""
    by_epoch = {int(match[1]): path for path in directory.glob(f"epoch-*{SUFFIX}")
                if (match := _NAME.fullmatch(path.name))}
    return [by_epoch[epoch] for epoch in sorted(by_epoch)]
