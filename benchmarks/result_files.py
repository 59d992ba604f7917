"""The result files of the benchmarks: what their names say, and which of them the tables have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from backend.errors import UserError
from benchmarks.records import Row, read_record

NAMED = re.compile(r"(.*?)(-tf32)?-(haswell|native|gpu)(?:-(\w+))?")  # a file: benchmark, products,
# whose kernels BLAS chose, and the machine
MACHINES = {  # processors by a file's ending, the newest first
    "Zen5": "EPYC (Zen 5)", "Zen5one": "the same, one thread", "Zen4": "EPYC (Zen 4)",
    "": "older EPYC",
    "Xeon": "Xeon", "Xeon1thread": "the same Xeon, one thread"}

Records = Mapping[str, Mapping[str, Any]]  # result files by name, without `.json`


def read(directory: Path) -> dict[str, dict[str, Any]]:
    """All result files of a directory, by name. Raises UserError if there is none, or if one is of
    a run with --quick."""
    if not directory.is_dir():
        raise UserError(f"{directory}: expected a directory of result files, found none")
    records = {path.stem: read_record(path) for path in sorted(directory.glob("*.json"))}
    for name, record in records.items():
        if record.get("options", {}).get("quick"):
            raise UserError(f"{name}.json: expected a measurement, got a run with --quick")
    return records


class File(NamedTuple):
    """The name of a result file, taken apart."""

    benchmark: str
    kernels: str  # haswell, native or gpu; "" for a file of another name
    machine: str  # a key of MACHINES, or another name
    tf32: bool

    @property
    def rank(self) -> tuple[bool, int]:
        """Newest processors first, and BLAS's own choice of kernels first."""
        known = list(MACHINES)
        place = known.index(self.machine) if self.machine in known else len(known)
        return self.kernels != "native", place


def named(stem: str) -> File:
    """The file of a name without `.json`."""
    match = NAMED.fullmatch(stem)
    return (File(match[1], match[3], match[4] or "", bool(match[2])) if match
            else File("", "", "", False))


def place_of(file: File, record: Mapping[str, Any]) -> str:
    """Where a file was measured, in words."""
    if file.kernels == "gpu":
        place = "GPU"
    elif file.machine == "" and "Xeon" in record["environment"]["cpu"]:
        place = MACHINES["Xeon"]
    else:
        place = MACHINES.get(file.machine, file.machine)
    return (place + ", Haswell kernels" * (file.kernels == "haswell")
            + ", TF32" * file.tf32)


def shown(records: Records, name: str) -> list[str]:
    """The files of a benchmark that the tables have: those of the newest processor, and of GPUs."""
    files = {stem: file for stem in records if (file := named(stem)).benchmark == name}
    chosen = []
    for tf32 in (False, True):
        alike = [stem for stem, file in files.items() if file.tf32 == tf32]
        cpu = [stem for stem in alike if files[stem].kernels != "gpu"]
        chosen += sorted(cpu, key=lambda stem: files[stem].rank)[:1]
        chosen += [stem for stem in alike if stem not in cpu]
    return chosen


def rows_of(records: Records, *names: str) -> Iterator[tuple[str, Row]]:
    """The place and each row of the files of these benchmarks that the tables have."""
    for name in names:
        for stem in shown(records, name):
            place = place_of(named(stem), records[stem])
            yield from ((place, row) for row in records[stem]["rows"])
