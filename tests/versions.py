"""The quick tests under each Python and NumPy that pyproject.toml allows: `make versions`.

Each pair has an environment under .venv-versions/. A Python that is not installed is named and left
out: `python3.14` is searched on the path, and among pyenv's versions. Exit status 1 if tests fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEWEST = "numpy"
PAIRS = (("3.11", "numpy==2.1.*"), ("3.11", NEWEST), ("3.12", NEWEST), ("3.13", NEWEST),
         ("3.14", NEWEST))  # NumPy 2.1 has no wheels for 3.14
QUICK = ("tests/lstm", "tests/attention", "tests/backend/test_rows.py",
         "tests/backend/test_switch.py", "tests/nmt/data/test_batches.py",
         "tests/nmt/data/test_tokenise.py", "tests/nmt/data/test_bpe.py",
         "tests/nmt/recipe/test_file.py", "tests/nmt/training/test_optimizers.py",
         "tests/nmt/training/test_trainer.py", "tests/nmt/cli/test_start.py",
         "tests/nmt/test_system.py", "tests/grads/check/test_simple.py",
         "tests/grads/derivations/test_gru_after.py")


def interpreter(version: str) -> str | None:
    """A Python of this version; None where there is none."""
    roots = (Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions").glob(
        f"{version}.*/bin/python")
    for command in (f"python{version}", *map(str, sorted(roots))):
        program = shutil.which(command)
        if program and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
            return program
    return None


def tried(python: str, version: str, numpy: str) -> str:
    """Install the package and run the tests; what to print of it."""
    home = ROOT / ".venv-versions" / f"{version}-{numpy.partition('==')[2] or 'newest'}"
    run = [home / "bin/python", "-m"]
    for command in ([python, "-m", "venv", home],
                    [*run, "pip", "install", "-q", "-e", ".[test]", numpy]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            return f"not installed: {(done.stderr.strip() or done.stdout.strip())[-300:]}"
    versions = "import numpy, platform; print(platform.python_version(), numpy.__version__)"
    named = subprocess.run([home / "bin/python", "-c", versions], capture_output=True, text=True)
    tests = subprocess.run([*run, "pytest", "-q", "-n", "0", *QUICK], cwd=ROOT, text=True,
                           capture_output=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    failed = [line for line in tests.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    last = (tests.stdout.strip().splitlines() or [tests.stderr.strip()[-300:]])[-1]
    return "\n".join([f"Python and NumPy {named.stdout.strip()}: {last}", *failed])


def main() -> None:
    """Try all pairs."""
    told = []
    for version, numpy in PAIRS:
        python = interpreter(version)
        told.append("no such Python is installed" if python is None
                    else tried(python, version, numpy))
        print(f"{version}, {numpy}: {told[-1]}", flush=True)
    sys.exit(any("failed" in line or "error" in line or "not installed:" in line for line in told))


if __name__ == "__main__":
    main()
