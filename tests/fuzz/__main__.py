"""`python -m tests.fuzz [READER ...]`: at least 100,000 inputs for each reader of files.

It takes hours on a busy machine; `--inputs 1000` takes a short time, and `--seed` chooses other
inputs. An input that fails is printed with its number and written into --output. Add it to
`tests/fuzz/kept.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from fuzz.readers import READERS  # noqa: E402
from fuzz.run import fuzz, inputs  # noqa: E402

SHOWN = 300  # bytes of an input


def main() -> int:
    """Returns 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--inputs", type=int, help="for each reader (default: its own number)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="directory for inputs that fail")
    options = parser.parse_args()
    findings = 0
    for name in options.readers or READERS:
        count, start = options.inputs or READERS[name].inputs, time.process_time()
        outcome = fuzz(READERS[name], inputs(name, count, options.seed, options.first))
        print(f"{name}: {outcome.accepted + outcome.refused + len(outcome.findings):,} inputs, "
              f"{outcome.accepted:,} accepted, {outcome.refused:,} refused, "
              f"{len(outcome.findings)} findings, slowest {outcome.slowest:.2f} s, "
              f"{outcome.seconds:.0f} s in the reader, {time.process_time() - start:.0f} s of CPU",
              flush=True)
        for which, problem, data in outcome.findings:
            print(f"  {which}: {problem}\n    {data[:SHOWN]!r}", flush=True)
            if options.output is not None:
                options.output.mkdir(parents=True, exist_ok=True)
                (options.output / which.replace("/", "-")).write_bytes(data)
        findings += len(outcome.findings)
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
