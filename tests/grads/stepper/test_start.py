"""The stepper starts quickly: a page of a derivation needs no translator."""

from __future__ import annotations

import subprocess
import sys

LATER = ("nmt.models", "nmt.recipe", "nmt.search", "nmt.system", "nmt.training")


def test_a_page_with_random_weights_imports_no_translator():
    program = ("import sys; from grads.stepper.explorer import build; build('rnn', seed=1); "
               f"print([n for n in {LATER} if n in sys.modules])")
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             check=True)
    assert process.stdout == "[]\n"
