"""Search for translations: greedy, sampling and beam search over anything that can encode and step.

`beam` holds the loop and its greedy and beam forms, `sample` draws at random, `topk` is the part
that runs on the device, `history` keeps the back-pointers, `interface` says what a model gives,
what can be chosen and what comes back.
"""
