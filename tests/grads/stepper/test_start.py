"""The stepper starts quickly: a derivation, or one's own code, needs no translator."""

from __future__ import annotations

import subprocess
import sys

LATER = ("nmt.models", "nmt.recipe", "nmt.search", "nmt.system", "nmt.training")


def test_importing_it_imports_no_translator():
    program = f"import sys, grads.stepper.explorer; print([n for n in {LATER} if n in sys.modules])"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             check=True)
    assert process.stdout == "[]\n"
