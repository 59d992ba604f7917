"""Several tasks: the gradient is the sum by task, and the kernels' is the same."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.derivations import multitask, nmt
from grads.derivations.examples import Request, Sizes
from nmt.data.batches import make_batch
from nmt.models.parametrization import Parametrized
from nmt.models.translator import ModelConfig, Translator
from nmt.training.tasks import Several, of_task, shared

SIZES = Sizes(hidden=2, embedding=3)
PAIRS = {"de-en": (0, 1), "de": (0, 0), "en": (1, 1)}  # which side is read, which is written


def example(sizes=SIZES):
    request = Request("a b a ||| c d", sizes, np.random.default_rng(1))
    return multitask.multitask_example(request).arguments


def run(parameters, x, y, **options):
    J, trace = multitask.mixed_forward(parameters, x, y, **options)
    return J, multitask.mixed_backward(parameters, x, y, trace)


@pytest.mark.parametrize("tasks", [multitask.TASKS, ("de-en", "de-en", "en"), ("de", "de-en")],
                         ids=" ".join)


def test_gradients(tasks):
    parameters, x, y = example()
    gradients = run(parameters, x, y, tasks=tasks)[1]
    report = check_gradients(lambda p: multitask.mixed_forward(p, x, y, tasks=tasks)[0],
                             parameters, gradients, together=True)
    assert report.ok, str(report)


def test_the_gradient_is_the_sum_by_task():
    parameters, x, y = example()
    together = run(parameters, x, y)
    alone = [run(parameters, x, y, tasks=(task,)) for task in multitask.TASKS]
    assert together[0] == pytest.approx(sum(J for J, _ in alone), rel=1e-15)
    for name, gradient in together[1].items():
        np.testing.assert_allclose(gradient, sum(g[name] for _, g in alone), rtol=1e-14, atol=1e-16)


def test_an_update_of_one_task_leaves_the_weights_of_others():
    parameters, x, y = example()
    gradients = run(parameters, x, y, tasks=("de",))[1]
    moved = {name for name, gradient in gradients.items() if gradient.any()}
    assert moved == {name for name in parameters
                     if name.startswith("encoder.") or name.startswith("de/")}


def test_a_shared_encoder_s_gradient_is_that_of_both_who_read():
    parameters, x, y = example()
    gradients, expected = run(parameters, x, y)[1], 0.0
    for task, target in (("de-en", y), ("de", x)):
        task_parameters = multitask.of_task(parameters, task)
        trace = nmt.forward(task_parameters, x, target)[1]
        task_gradients = nmt.backward(task_parameters, x, target, trace)[0]
        expected = expected + task_gradients["encoder.0.W"]
    np.testing.assert_allclose(gradients["encoder.0.W"], expected, rtol=1e-14)


@pytest.mark.parametrize("sizes", [SIZES, Sizes(hidden=3, layers=1, biases=False)], ids=str)
def test_kernels(sizes):
    """The models with the shared parts that are trained, and a batch of each task."""
    parameters, *sides = example(sizes)
    V = [len(parameters["encoder.W_e"]), len(parameters["decoder.W_e"])]
    config = ModelConfig(layers=sizes.layers, hidden_size=sizes.hidden, attention="none",
                         embedding_size=sizes.embedding, input_feeding=False, biases=sizes.biases,
                         output_bias=sizes.biases)
    models = {task: Translator(config, V[s], V[t]) for task, (s, t) in PAIRS.items()}
    model = Parametrized(Several(models), shared(models, {
        "encoder": [["de-en", "de"]], "decoder": [["de-en", "en"]]}))
    stored = {name if "/" in name else f"de-en/{name}": W for name, W in parameters.items()}
    assert stored.keys() == model.weights().keys()
    J, total = 0.0, {name: np.zeros_like(W) for name, W in stored.items()}
    for task, (s, t) in PAIRS.items():
        batch = make_batch([(sides[s], sides[t])], [0], False)
        loss, cache = model.loss(stored, type(batch)(batch.sources, batch.target, batch.indices,
                                                     task=task))
        J += float(loss)
        for name, gradient in model.backward(cache).items():
            total[name] += gradient if isinstance(gradient, np.ndarray) else gradient.dense()
    expected, gradients = run(parameters, *sides)
    assert J == pytest.approx(expected, rel=1e-13)
    for name, gradient in gradients.items():
        full_name = name if "/" in name else f"de-en/{name}"
        np.testing.assert_allclose(total[full_name], gradient, rtol=1e-10, atol=1e-14, err_msg=name)
    assert of_task("de", model.plain(stored))["encoder.W_e"] is stored["de-en/encoder.W_e"]
