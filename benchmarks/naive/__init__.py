"""From textbook code to the product's kernel by one idea at a time, and what each is worth.

`textbook` is the equations as they read; `structure` moves products out of the loop; `memory`
writes in place and keeps buffers, and ends at `lstm.recurrent`. `run` checks that all are equal and
times them.
"""

from benchmarks.naive.run import main

__all__ = ["main"]
