"""Typesets the formulas of the pages and of the lessons, into `website/formulas.json`:
`python website/typeset.py`, which needs Node.js."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import formulas
import lessons

ROOT = Path(__file__).resolve().parents[1]
BUILDER = ROOT / "grads" / "stepper" / "explorer" / "typeset"


def main() -> None:
    """Typeset the formulas of the pages and of the lessons."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))]
    texts += [cell["source"] for path in lessons.make_notebooks.LESSONS
              for cell in lessons.unrun(path) if cell["cell_type"] == "markdown"]
    keys = sorted({key for text in texts for key in formulas.written(text)})
    formulas.TYPESET.write_text(json.dumps(dict.fromkeys(keys, "")), "utf-8")
    for command in (["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"],
                    ["npm", "run", "build"]):
        subprocess.run(command, cwd=BUILDER, check=True)


if __name__ == "__main__":
    main()
