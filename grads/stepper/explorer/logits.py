"""Splits the logits of each prediction into norms, cosines and biases (Nguyen, 3.2.2, 3.2.6), for
the right word and for its best rivals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.explorer.tensors import FORWARD, Table, number
from grads.stepper.trace import Origin, Target, Trace
from grads.stepper.tracing.derivations import Run
from nmt.analysis.summands import Logit, taken_apart

# By function that predicts: its matrices, and what each multiplies
PRODUCTS = {"predict": (("W_hy", "h"),), "predict_smoothed": (("W_hy", "h"),),
            "predict_both": (("W_hy", "h"), ("W_l", "h_l"))}
MATRICES = ("output.W_hy", "output.W_o", "W_hy")  # parameters with a row for each target word
RIVALS = 2
DIGITS = 5  # significant ones of a number


class Prediction(NamedTuple):
    """A prediction in the forward pass."""

    scores: int  # number of the step that makes the logits
    steps: list[int]  # numbers of the assignments of its function, and of the one that it is for
    logits: list[Logit]


def predictions(run: Run) -> Iterator[Prediction]:
    """The predictions of target words. Predictions of characters, and of the words of further
    tasks, are left out."""
    if run.derivation.is_users:
        return
    words = next(reversed(run.example.words.values()), None)
    for call in run.forward.calls:
        if call.function in PRODUCTS:
            named = prediction(run.forward, call.number, PRODUCTS[call.function], words)
            if named is not None:
                yield named


def prediction(
    trace: Trace, frame: int, products: tuple[tuple[str, str], ...], words: list[str] | None
) -> Prediction | None:
    """The prediction that one call makes; None if it predicts other words."""
    inside = [step for step in trace.steps if step.frame == frame]
    given = {target.name: (step.number, i) for step in inside if step.kind == "call"
             for i, target in enumerate(step.targets)}
    W = np.asarray(trace.alive[given[products[0][0]]])
    if words is not None and (len(words) != len(W) or
                              parameter(trace, given[products[0][0]]) not in MATRICES):
        return None
    b, y = (np.asarray(trace.target(given[name]).value) for name in ("b", "y"))
    if b.shape:
        b = np.asarray(trace.alive[given["b"]])
    logits = taken_apart(
        [(np.asarray(trace.alive[given[matrix]], float),
          np.ravel(np.asarray(trace.alive[given[vector]], float))) for matrix, vector in products],
        np.broadcast_to(b.astype(float).ravel(), len(W)), int(y),
        list(map(str, range(len(W)))) if words is None else words, RIVALS)
    steps = [step.number for step in inside if step.kind == "assign"]
    caller = trace.calls[frame].caller
    after = next((step.number for step in trace.steps[steps[-1]:]
                  if step.frame == caller and step.kind == "assign"), None)
    scores = next(step.number
                  for step in inside if any(target.name == "s" for target in step.targets))
    return Prediction(scores, steps + ([] if after is None else [after]), logits)


def parameter(trace: Trace, origin: Origin) -> str:
    """The name of the parameter whose numbers a target holds: `output.W_hy` for
    `parameters['output.W_hy']`."""
    target: Target = trace.target(origin)
    while target.same_as is not None:
        target = trace.target(target.same_as)
    return target.name.partition("'")[2].partition("'")[0] or target.name


def logits_json(table: Table, numbers: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
    """The predictions that the page shows: the first and the last step of each, and its logits.

    A logit has the word, its probability, the logit, the bias, and |W_e|, |h|, the cosine and the
    value of each product.
    """
    entries = []
    for prediction in predictions(table.run):
        shown = [numbers[FORWARD, step] for step in prediction.steps if (FORWARD, step) in numbers]
        if shown:
            entries.append({"first": min(shown), "last": max(shown), "words": [
                {"word": logit.word, "p": short(logit.probability), "logit": short(logit.value),
                 "bias": short(logit.bias),
                 "products": [[*map(short, product), short(product.value)] for product in
                              (logit.output, logit.lexical) if product is not None]}
                for logit in prediction.logits]})
    return entries


def short(value: float) -> Any:
    """A rounded number for the page."""
    return number(value, DIGITS)


def said_logits(logits: list[Logit]) -> str:
    """The logits of a prediction as text for the terminal, one per line."""
    lexical = " + |w_l| |h_l| cos" if logits[0].lexical is not None else ""
    lines = [f"logits  |w| |h| cos{lexical} + b: the word to be predicted, then its best rivals"]
    for prediction in logits:
        parts = [product for product in (prediction.output, prediction.lexical)
                 if product is not None]
        products = " + ".join(f"{product.norm:.4g} x {product.length:.4g} x {product.cosine:.4g}"
                              for product in parts)
        lines.append(f"        {prediction.word}: {prediction.value:.4g} = {products} + "
                     f"{prediction.bias:.4g}, p {prediction.probability:.4g}")
    return "".join(f"{line}\n" for line in lines)
