"""A prediction from the decoder's state alone, softmax(M m_t + b), without a hidden layer.

Source: Nair and Shah (2016), section 6.2: "we can use these memory states, along with a parameter
matrix M and a bias vector b, to compute a score for each word". M is `output.W_hy` here.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend import Array, array_module
from lstm.parameters import Weight
from lstm.prediction import output_step, output_weights
from nmt.data.batches import Batch
from nmt.models.contract import Gradients
from nmt.models.heads.deep_output import DeepOutput
from nmt.models.heads.head import Decoded


class StateOutput(DeepOutput):
    """The head of the encoder-decoder of Nair and Shah."""

    reads = frozenset({"states"})
    matrix = "W_hy"

    def weights(self) -> dict[str, Weight]:
        """`output.W_hy` (V, H), with a bias `output.b` (V,)."""
        config = self.config
        return output_weights("output", config.hidden_size, self.target_size, config.output_bias,
                              config.scheme)

    def _hidden(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch
    ) -> tuple[Array, None]:
        """m_1 .. m_T (T, B, H)."""
        return decoded.states[1:], None

    def _hidden_backward(self, dt: Array, cache: None) -> tuple[Decoded, Gradients]:
        """The gradient of the states. This head does not read m_0."""
        states = array_module(dt).zeros((len(dt) + 1, *dt.shape[1:]), dtype=dt.dtype)
        states[1:] = dt
        return Decoded(states=states), {}

    def _parts(self, decoded: Decoded) -> tuple[Array, ...]:
        """The state of a step of search, rows (N, H)."""
        return (decoded.states[1],)

    def _logits(self, parameters: Mapping[str, Array], parts: tuple[Array, ...]) -> Array:
        return output_step("output", parameters, parts[0], self.matrix)    # (Nair 5 logits)
