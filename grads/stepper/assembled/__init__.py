"""Trained models that no single derivation covers, assembled from the derivations' parts.

A derivation is one algorithm as its paper prints it. A trained model may have a stack of gated
units under attention, a bidirectional encoder, a bridge: each step is a line of some derivation,
but the whole is in no paper. Here are the whole models, forward and backward, one example and one
time step at a time as in `grads.derivations`, for the explorer; the parts are passed in (`Model`),
and a test compares each with the kernels.
"""
