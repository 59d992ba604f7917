"""The prediction layer over a sampled vocabulary (importance sampling), for training only.

Source: Jean et al. (2015), "On Using Very Large Target Vocabulary"; named without equations by Nair
and Shah (2016), 7.3. With s_k the logits, the gradient of -log p(y) is -ds_y + E_p[ds_k]. The
expectation is taken over a few words V' with importance weights:

    E_p[ds_k] ~ sum over V' of (w_k / sum of w) ds_k,  w_k = exp(s_k - log Q(k))     (Jean 12)

which is the exact gradient of -log (exp(s_y - log Q(y)) / sum over V' of exp(s_k - log Q(k))). V'
holds the words that the batch predicts, with Q = 1, and other words drawn without replacement,
where Q is the chance to be drawn. Then the mean of the sum over V' is the sum over all words. Jean
et al. take the same Q for all of V', so that Q cancels (`equal`). If V' has all V words, the loss
is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, array_module, to_device
from backend.errors import check_least
from backend.rows import RowGradient, check_ids
from backend.workspace import Workspace
from lstm.parameters import Parameters
from lstm.prediction import OutputCache, output_backward, output_forward

INVERSE, EQUAL = SAMPLE_WEIGHTS = ("inverse", "equal")
SITE = "output.sample"  # its name in the noise


def draw_sample(
    targets: np.ndarray, lengths: np.ndarray, vocabulary_size: int, count: int, weights: str,
    rng: np.random.Generator, dtype: DTypeLike,
) -> np.ndarray:
    """(V,) host, 1 / Q(k) for the words sampled for a batch, 0 for all other words.

    Arguments: targets (T, B) host ids; lengths (B,) host; count, the number of words drawn in
    addition to those of the batch (all, if there are fewer); weights, "inverse" or "equal".
    """
    real = np.arange(len(targets))[:, None] < lengths
    sample = np.zeros(vocabulary_size)
    sample[targets[real]] = 1.0
    absent = np.flatnonzero(sample == 0.0)
    drawn = rng.choice(absent, min(count, len(absent)), replace=False)
    sample[drawn] = len(absent) / max(len(drawn), 1) if weights == INVERSE else 1.0
    return sample.astype(dtype)


def check_sample(config: Any) -> None:
    """Raise ValueError if a configuration's `target_sample` or `sample_weights` is out of range.
    """
    check_least(config, 1, "target_sample")
    if config.sample_weights not in SAMPLE_WEIGHTS:
        raise ValueError(f"sample_weights: expected {' or '.join(SAMPLE_WEIGHTS)}, got "
                         f"{config.sample_weights!r}")
    if config.target_sample is None and config.sample_weights != INVERSE:
        raise ValueError("sample_weights: needs target_sample, which is null")


def sample_of(
    config: Any, batch: Any, vocabulary_size: int, rng: np.random.Generator, dtype: DTypeLike
) -> dict[str, np.ndarray]:
    """The noise of a configuration that samples: `draw_sample` of the batch, at SITE."""
    if config.target_sample is None:
        return {}
    return {SITE: draw_sample(batch.target_out, batch.target.lengths, vocabulary_size,
                              config.target_sample, config.sample_weights, rng, dtype)}


class SampledCache(NamedTuple):
    output: OutputCache  # of the prediction layer with the rows V' of W_hy
    ids: np.ndarray  # (V',) host, ascending
    names: tuple[str, str]  # of W_hy and b
    V: int
    has_bias: bool


def sampled_forward(
    prefix: str, parameters: Mapping[str, Array], h: Array, targets: np.ndarray,
    lengths: np.ndarray, workspace: Workspace, sample: np.ndarray, name: str = "W_hy",
) -> tuple[Array, SampledCache]:
    """The summed loss of a batch as `output_forward`, over the words of a sample.

    Arguments as there; sample (V,) host, from `draw_sample`. Returns the loss in nats, 0-d, and the
    cache. Raises ValueError for a target that is no row of W_hy, or not in the sample.
    """
    names, xp = (f"{prefix}.{name}", f"{prefix}.b"), array_module(h)
    W_hy, b = parameters[names[0]], parameters.get(names[1])
    check_ids(targets, len(W_hy), "targets")
    ids = np.flatnonzero(sample)                                           # V'
    places = np.searchsorted(ids, targets).clip(max=len(ids) - 1)          # (T, B)
    real = np.arange(len(targets))[:, None] < lengths
    if (ids[places] != targets)[real].any():
        raise ValueError("sample: expected one that holds every word of the batch, got another")
    rows = to_device(ids)
    shift = to_device(np.log(sample[ids]).astype(h.dtype))                 # -log Q(k)
    sampled = {names[0]: xp.take(W_hy, rows, axis=0),
               names[1]: shift if b is None else b[rows] + shift}
    loss, cache = output_forward(prefix, sampled, h, places, lengths, workspace, name)  # (Jean 12)
    return loss, SampledCache(cache, ids, names, len(W_hy), b is not None)


def sampled_backward(cache: SampledCache, workspace: Workspace) -> tuple[Array, Parameters]:
    """The gradients of h (T, B, H) and of the output parameters; of W_hy only the sample's rows."""
    dh, gradients_of_rows = output_backward(cache.output, workspace)
    dW, db = (gradients_of_rows[name] for name in cache.names)
    rows = to_device(cache.ids)
    gradients: Any = {cache.names[0]: RowGradient(rows, dW, (cache.V, dW.shape[1]), cache.ids)}
    if cache.has_bias:
        full = array_module(db).zeros((cache.V,), dtype=db.dtype)
        full[rows] = db
        gradients[cache.names[1]] = full
    return dh, gradients
