"""Search for translations: greedy search, sampling and beam search over any `Searchable`.

`beam` has the loop, greedy search and beam search; `sample`, random sampling; `lengths`, the choice
of lengths for models that count down; `steps`, the hypotheses of a step; `interface`, the options
and the results.
"""
