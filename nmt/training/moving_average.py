"""The exponential moving average of the parameters over updates.

Source: Kingma and Ba (ICLR 2015), their section 7.2: after each update, from zeros,
theta_bar <- beta theta_bar + (1 - beta) theta, and the average is theta_bar / (1 - beta^t). Here
the quotient itself is kept, which is equivalent: a <- a + w (theta - a) with
w = (1 - beta) / (1 - beta^t). Validation and checkpoints use the average; training continues with
the parameters themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backend import Array
from backend.fused import fused
from nmt.training import checkpoint, updates
from nmt.training.optimizers import slices


class MovingAverage:
    """The average of a run's parameters; without a decay, the parameters themselves."""

    def __init__(self, decay: float, parameters: dict[str, Array]) -> None:
        """decay: beta in [0, 1), 0 for no average. parameters: trained in place."""
        self._decay, self._trained = decay, parameters
        self.parameters = {name: p.copy() for name, p in parameters.items()} if decay \
            else parameters
        self._saved = {checkpoint.PARAMETERS: self.parameters} | (
            {checkpoint.TRAINED: parameters} if decay else {})

    def update(self, t: int) -> None:
        """Add the parameters after update t, which counts from 1, to the average."""
        if self._decay:
            weight = (1 - self._decay) / (1 - self._decay**t)  # 1 at t = 1
            move_averages(list(self.parameters.values()), list(self._trained.values()), weight)

    def trained(self) -> dict[str, Array]:
        """The parameters that a resume trains, by their names in a checkpoint; none without a
        decay, since the checkpoint's parameters are then those that are trained."""
        return checkpoint.prefixed(checkpoint.TRAINED, self._trained) if self._decay else {}

    def load(self, saved: checkpoint.Checkpoint, path: Path) -> None:
        """Restore parameters and average from a checkpoint that was read from `path`. Raises
        UserError if the checkpoint lacks some of them."""
        for prefix, arrays in self._saved.items():
            for name, array in checkpoint.parameters_of(saved, path, arrays, prefix).items():
                arrays[name][...] = array


@fused(updates.move_averages)
def move_averages(averages: Sequence[Array], parameters: Sequence[Array], weight: float) -> None:
    """a <- (1 - w) a + w p for each array, in place; w = 1 gives exactly p."""
    for average, parameter in zip(averages, parameters, strict=True):
        for a, p in slices(average, parameter):
            a *= 1 - weight
            a += weight * p
