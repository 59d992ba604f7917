"""The checker starts quickly: importing it imports nothing that only some checks need."""

from __future__ import annotations

import subprocess
import sys

LATER = ("grads.check.page", "grads.check.heatmap", "grads.check.user_code", "grads.derivations",
         "grads.verification", "nmt.models", "scipy", "rich", "matplotlib")


def test_importing_it_imports_no_page_no_model_and_no_other_library():
    program = f"import sys, grads.check; print([n for n in {LATER} if n in sys.modules])"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             check=True)
    assert process.stdout == "[]\n"
