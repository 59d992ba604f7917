"""What the tests against PyTorch share; importing it skips a test module where torch is missing.

Arguments and upstream gradients are random and read-only, so a kernel that writes into one of them
raises. Parameters are leaves in our layout; `grads.oracle` knows how they become PyTorch's.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from grads import oracle
from lstm.recurrent import make_padding

torch = pytest.importorskip(
    "torch", reason="PyTorch, the oracle (extra `oracle`), is not installed"
)
run_cell = import_module("grads.oracle.units").run_cell  # which needs torch

TOLERANCE = 1e-10
H, E = 4, 3
BLOCKS = {unit: len(ours) for unit, (ours, _) in oracle.GATE_ORDERS.items()}
STATES = oracle.STATES
# steps, sentences, lengths: full, ragged with an empty sequence, the smallest
BATCHES = [(5, 4, None), (5, 4, (5, 3, 1, 0)), (1, 1, None)]


def draw(rng, *shape, scale=1.0):
    """A read-only array of normals, of standard deviation `scale`."""
    array = np.asarray(rng.normal(scale=scale, size=shape))
    array.flags.writeable = False
    return array


def leaf(array):
    """The array as a tensor that collects a gradient."""
    return torch.tensor(array, requires_grad=True)


def assert_close(ours, theirs):
    """Relative error below TOLERANCE, and not a comparison of nothing with nothing."""
    theirs = (theirs.grad if theirs.requires_grad and theirs.is_leaf else theirs).detach().numpy()
    assert ours.shape == theirs.shape
    assert ours.dtype == np.float64
    scale = np.abs(theirs).max()
    assert scale > 0, "the oracle's values are all zero"
    assert np.abs(ours - theirs).max() / scale < TOLERANCE


def backpropagate(outputs, upstream):
    """PyTorch's backward from each output that has an upstream gradient."""
    pairs = [(o, torch.tensor(d)) for o, d in zip(outputs, upstream, strict=True) if d is not None]
    torch.autograd.backward([o for o, _ in pairs], [d for _, d in pairs])


def choices(upstream):
    """Each upstream gradient alone (None for the others), then all together."""
    for chosen in range(len(upstream)):
        yield [d if i == chosen else None for i, d in enumerate(upstream)]
    if len(upstream) > 1:
        yield list(upstream)


def cell(unit, x, state, T, b):
    """One step of nn.LSTMCell or nn.RNNCell with our T and b; states are tuples."""
    return run_cell(unit, x, state, (T, b))


def sequence(unit, x, state, T, b, lengths, reverse, clip=None):
    """The cell at every step; a padded step hands its state on. Returns h (T, B, H), the last."""
    steps = len(x)
    lengths = torch.tensor(lengths if lengths is not None else [steps] * x.shape[1])
    h = [None] * steps
    for t in reversed(range(steps)) if reverse else range(steps):
        alive = (t < lengths)[:, None]
        now = cell(unit, x[t], state, T, b)
        state = tuple(torch.where(alive, n, s) for n, s in zip(now, state, strict=True))
        if clip is not None:
            state[0].register_hook(lambda d: d.clamp(-clip, clip))
        h[t] = state[0]
    return torch.stack(h), state


def as_padding(lengths, steps):
    """Our description of a ragged batch."""
    return None if lengths is None else make_padding(np.array(lengths), steps)
