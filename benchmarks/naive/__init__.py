"""From textbook code to the product's kernel in single steps, and the speed-up of each.

`textbook` is the equations literally; `structure` moves matrix products out of the loop; `memory`
writes in place and reuses buffers, and ends at `lstm.recurrent`. `run` checks that all are equal
and
times them.
"""

from benchmarks.naive.run import main

__all__ = ["main"]
