"""Trained models that no derivation covers whole, put together from the derivations' parts.

A derivation is one algorithm as its paper prints it. A trained model may have a stack of gated
units under attention, an encoder that reads from both ends, a bridge: each step of it is a line of
some derivation, the whole is in no paper. Here the wholes are, forward and backward, one example
and one time step at a time as in `grads.derivations`, for the explorer to step through; the parts
are passed in (`Model`), and a test holds each to the kernels.
"""
