"""The three schemes of pruning. Each gives scores, and the k weights with the smallest are pruned.

Source: thesis, section 6.2.2, "Pruning Schemes". With x % of N weights to prune, k is x N / 100,
rounded:

| scheme | score of weight w of class c | prunes |
|---|---|---|
| class-blind | abs(w) | the smallest of all |
| class-uniform | (rank of abs(w) in c + 1/2) / size of c | x % of each class |
| class-distribution | abs(w) / sigma_c | below lambda sigma_c, one lambda for all classes |

sigma_c is the standard deviation about the mean. Ties go in the order of weights and entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from backend.errors import check_among

Score = Callable[[np.ndarray], np.ndarray]  # all weights of a class, flat -> their scores
Masks = dict[str, np.ndarray]  # name -> bool, True where the weight is kept
GONE = -1.0  # the score of a weight that was pruned before, below every other score


def class_blind(w: np.ndarray) -> np.ndarray:
    """The magnitudes of weights."""
    return np.abs(w)                                                       # (6.2.2 pruning)


def class_uniform(w: np.ndarray) -> np.ndarray:
    """The share of the class that is smaller. The added 1/2 makes x % of n weights
    round(x n / 100)."""
    order = np.argsort(np.abs(w), kind="stable")
    score = np.empty(w.size)
    score[order] = (np.arange(w.size) + 0.5) / w.size                      # (6.2.2 pruning)
    return score


def class_distribution(w: np.ndarray) -> np.ndarray:
    """The magnitudes in standard deviations; in a class of equal weights, the magnitudes."""
    return np.abs(w) / (np.std(w, dtype=np.float64) or 1.0)                # (6.2.2 pruning)


SCHEMES: dict[str, Score] = {
    "class-blind": class_blind,
    "class-uniform": class_uniform,
    "class-distribution": class_distribution,
}


def masks(
    parameters: Mapping[str, np.ndarray], classes: Mapping[str, str], percent: float, scheme: str,
    before: Mapping[str, np.ndarray] | None = None,
) -> Masks:
    """Masks that prune `percent` of the weights of all classes together.

    parameters: on the host. classes: name -> class, for the parameters that may be pruned. percent:
    in [0, 100). scheme: a key of SCHEMES. before: masks of weights that stay pruned, or None.
    Raises ValueError for a percentage below what was pruned before.
    """
    check_among("scheme", scheme, SCHEMES)
    scores = _scores(parameters, classes, SCHEMES[scheme])
    for name, mask in (before or {}).items():
        scores[name][~mask.reshape(-1)] = GONE
    size = sum(score.size for score in scores.values())
    pruned = sum(int((score == GONE).sum()) for score in scores.values())
    count = round(percent * size / 100)
    if count < pruned:
        raise ValueError(f"percent: expected at least {100 * pruned / size:.4g}, which have been "
                         f"pruned before, got {percent:g}")
    return _keep_all_but(count, scores, {name: parameters[name].shape for name in classes})


def _scores(
    parameters: Mapping[str, np.ndarray], classes: Mapping[str, str], score: Score
) -> dict[str, np.ndarray]:
    """Flat scores by parameter, in the order of `classes`."""
    scores: dict[str, np.ndarray] = {}
    for group in dict.fromkeys(classes.values()):
        names = [name for name, class_of_name in classes.items() if class_of_name == group]
        flat = [parameters[name].reshape(-1) for name in names]
        cuts = np.cumsum([values.size for values in flat])[:-1]
        scores |= dict(zip(names, np.split(score(np.concatenate(flat)), cuts), strict=True))
    return {name: scores[name] for name in classes}


def _keep_all_but(
    count: int, scores: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]
) -> Masks:
    """Masks that prune the `count` smallest scores. Of equal scores the first are pruned."""
    if not scores:
        return {}
    joined = np.concatenate(list(scores.values()))
    keep = np.ones(joined.size, bool)
    if count:
        largest = np.partition(joined, count - 1)[count - 1]  # the largest score that is pruned
        keep = joined > largest
        ties = np.flatnonzero(joined == largest)
        keep[ties[count - int((joined < largest).sum()):]] = True
    cuts = np.cumsum([score.size for score in scores.values()])[:-1]
    return {name: values.reshape(shapes[name])
            for name, values in zip(scores, np.split(keep, cuts), strict=True)}
