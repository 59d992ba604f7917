"""Starting MPI ranks on this machine: shared memory alone, more ranks than cores, as any user."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tiny_run import ROOT

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    "HYDRA_LAUNCHER": "fork", "HYDRA_IFACE": "lo",  # MPICH's launcher
    "UCX_TLS": "self,posix,sysv", "FI_PROVIDER": "shm",  # what is below MPICH
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",  # Open MPI
    "OMPI_MCA_btl": "self,sm", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def mpiexec() -> Path | None:
    """The launcher beside this Python, where mpi4py is there too."""
    path = Path(sys.executable).parent / "mpiexec"
    return path if path.exists() and find_spec("mpi4py") else None


WHY_NOT = "" if mpiexec() else "needs mpi4py and mpiexec: pip install -e '.[mpi]'"


def launch(*arguments: object, **settings: object) -> subprocess.Popen:
    """`mpiexec ARGUMENTS`, its output as text."""
    environment = {name: value for name, value in os.environ.items()
                   if name != "OPENBLAS_CORETYPE"}
    environment |= ENVIRONMENT | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    return subprocess.Popen([str(mpiexec()), *map(str, arguments)], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            **settings)  # type: ignore[call-overload]
