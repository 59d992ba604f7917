"""SGD, Adam, Adadelta and the clip scale against PyTorch, naive formulas and each other."""

import copy

import numpy as np
import pytest
from strict.module import strict, to_strict

import backend
from backend.rows import RowGradient
from nmt.training import optimizers
from nmt.training.optimizers import SGD, Adadelta, Adam, gradient_scale


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Slices smaller than the parameters here, with a shorter last one."""
    monkeypatch.setattr(optimizers, "SLICE", 7)


def make(dtype="float64", seed=0):
    """Parameters and gradients, one of them sparse."""
    rng = np.random.default_rng(seed)
    parameters = {"table": rng.standard_normal((9, 4)).astype(dtype),
                  "W": rng.standard_normal((5, 4)).astype(dtype),
                  "b": rng.standard_normal(3).astype(dtype)}
    gradients = {"b": rng.standard_normal(3).astype(dtype),
                 "W": rng.standard_normal((4, 5)).astype(dtype).T,  # not contiguous, as from a GEMM
                 "table": RowGradient(np.array([1, 4, 7]),
                                      rng.standard_normal((3, 4)).astype(dtype), (9, 4))}
    return parameters, gradients


def steps_with_rows_that_come_and_go():
    """Gradients of four updates, with other rows of the table in each."""
    every = [make(seed=seed)[1] for seed in range(1, 5)]
    for k, gradients in enumerate(every):
        rows = gradients["table"]
        gradients["table"] = RowGradient((rows.ids + k) % 9, rows.values, rows.shape)
    return every


def dense(gradients):
    return {name: g.dense() if isinstance(g, RowGradient) else g for name, g in gradients.items()}


def copies(arrays):
    return {name: array.copy() for name, array in arrays.items()}


def naive_adam(parameters, gradients_by_step, rate, scale):
    """Kingma and Ba, Algorithm 1, as printed."""
    result = {}
    for name, theta in parameters.items():
        m = v = np.zeros_like(theta)
        for t, gradients in enumerate(gradients_by_step, 1):
            g = scale * gradients[name]
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g**2
            m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
            theta = theta - rate * m_hat / (np.sqrt(v_hat) + 1e-8)
        result[name] = theta
    return result


def test_sgd_is_equation_2_9():
    parameters, gradients = make()
    expected = {name: parameters[name] - 0.3 * 0.5 * g for name, g in dense(gradients).items()}
    W = parameters["W"].copy()
    SGD(0.3).update(parameters, gradients, 0.5)
    for name in parameters:
        np.testing.assert_allclose(parameters[name], expected[name], rtol=1e-14)
    SGD.rule(W, gradients["W"], 0.5, 0.3)
    np.testing.assert_array_equal(W, parameters["W"])


def test_sgd_on_rows_equals_dense_and_leaves_the_others():
    parameters, gradients = make()
    other = copies(parameters)
    before = parameters["table"].copy()
    SGD(0.3).update(parameters, gradients, 0.5)
    SGD(0.3).update(other, dense(gradients), 0.5)
    for name in parameters:
        np.testing.assert_array_equal(parameters[name], other[name])
    np.testing.assert_array_equal(parameters["table"][[0, 2, 3, 5, 6, 8]],
                                  before[[0, 2, 3, 5, 6, 8]])
    assert (parameters["table"][[1, 4, 7]] != before[[1, 4, 7]]).all()


@pytest.mark.parametrize("optimizer", [SGD, Adam, Adadelta])
def test_updates_are_in_place_and_leave_the_gradient(optimizer):
    parameters, gradients = make()
    ids = {name: id(array) for name, array in parameters.items()}
    kept = copies(dense(gradients))
    optimizer(0.1).update(parameters, gradients)
    assert {name: id(array) for name, array in parameters.items()} == ids
    for name, gradient in dense(gradients).items():
        np.testing.assert_array_equal(gradient, kept[name])


def test_adam_is_algorithm_1():
    parameters, _ = make()
    steps = steps_with_rows_that_come_and_go()
    expected = naive_adam(parameters, [dense(g) for g in steps], 0.01, 0.25)
    adam = Adam(0.01)
    for gradients in steps:
        adam.update(parameters, gradients, 0.25)
    for name in parameters:
        np.testing.assert_allclose(parameters[name], expected[name], rtol=1e-12)


@pytest.mark.parametrize("ours, theirs_named, settings", [
    (SGD(0.02), "SGD", {}),
    (SGD(0.02, weight_decay=0.3), "SGD", {"weight_decay": 0.3}),  # their L2: the same for SGD
    (Adam(0.02), "Adam", {}),
    (Adam(0.02, 0.8, 0.98, 1e-3), "Adam", {"betas": (0.8, 0.98), "eps": 1e-3}),
    (Adam(0.02, weight_decay=0.3), "AdamW", {"weight_decay": 0.3}),
    (Adadelta(0.02), "Adadelta", {"rho": 0.95, "eps": 1e-6}),
], ids=["sgd", "sgd-decay", "adam", "adam-constants", "adamw", "adadelta"])
@pytest.mark.parametrize("dtype, rtol", [("float64", 1e-12), ("float32", 2e-5)])
def test_against_torch(ours, theirs_named, settings, dtype, rtol):
    torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
    parameters, _ = make(dtype)
    ours = copy.deepcopy(ours)
    theirs = {name: torch.tensor(p, requires_grad=True) for name, p in parameters.items()}
    oracle = getattr(torch.optim, theirs_named)(theirs.values(), lr=0.02, **settings)
    for seed in range(1, 6):
        gradients = make(dtype, seed)[1]
        ours.update(parameters, gradients)
        for name, gradient in dense(gradients).items():
            theirs[name].grad = torch.tensor(np.ascontiguousarray(gradient))
        oracle.step()
    for name in parameters:
        np.testing.assert_allclose(parameters[name], theirs[name].detach().numpy(), rtol=rtol)


@pytest.mark.parametrize("kind", [SGD, Adam, Adadelta])
def test_weight_decay_shrinks_all_rows_beside_the_rule(kind):
    """It is (1 - eta lambda) p, followed by the rule's own step; rows of a table are treated like a
    dense gradient."""
    plain, _ = make()
    decayed, dense_decayed, before = copies(plain), copies(plain), copies(plain)
    rate, decay = 0.1, 0.3
    without, with_decay, of_dense = kind(rate), *(kind(rate, weight_decay=decay) for _ in "rd")
    for gradients in steps_with_rows_that_come_and_go()[:1]:
        without.update(plain, gradients)
        with_decay.update(decayed, gradients)
        of_dense.update(dense_decayed, dense(gradients))
    for name in plain:
        np.testing.assert_allclose(decayed[name], plain[name] - rate * decay * before[name],
                                   rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(decayed[name], dense_decayed[name])


def test_adam_corrects_a_late_parameter_from_its_own_first_step():
    parameters, gradients = make()
    before = parameters["b"].copy()
    adam = Adam(0.01)
    for _ in range(3):
        adam.update(parameters, {"W": gradients["W"]})
    np.testing.assert_array_equal(parameters["b"], before)
    adam.update(parameters, {"b": gradients["b"]})
    np.testing.assert_allclose(parameters["b"], before - 0.01 * np.sign(gradients["b"]), rtol=1e-6)


def naive_adadelta(theta, gradients, scale, rate=1.0):
    """Zeiler (2012), Algorithm 1, as printed."""
    squares = steps = np.zeros_like(theta)
    for g in gradients:
        g = scale * g
        squares = 0.95 * squares + 0.05 * g**2
        d = -np.sqrt(steps + 1e-6) / np.sqrt(squares + 1e-6) * g
        steps = 0.95 * steps + 0.05 * d**2
        theta = theta + rate * d
    return theta


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_adadelta_is_the_printed_algorithm(rate):
    parameters, _ = make()
    before, every = copies(parameters), steps_with_rows_that_come_and_go()
    adadelta = Adadelta(rate)
    for gradients in every:
        adadelta.update(parameters, gradients, 0.5)
    for name, theta in before.items():
        expected = naive_adadelta(theta, [dense(gradients)[name] for gradients in every], 0.5, rate)
        np.testing.assert_allclose(parameters[name], expected, rtol=1e-13)


@pytest.mark.parametrize("kind, rate", [(Adam, 0.01), (Adadelta, 1.0)])
def test_state_goes_on_exactly(kind, rate):
    parameters, gradients = make("float32")
    adam = kind(rate)
    adam.update(parameters, gradients)
    other, again = kind(rate), copies(parameters)
    other.load_state_arrays(adam.state_arrays(), parameters)
    adam.update(parameters, gradients)
    other.update(again, gradients)
    for name in parameters:
        np.testing.assert_array_equal(parameters[name], again[name])


def test_state_arrays_that_do_not_fit_are_refused():
    adam = Adam()
    adam.update(*make())
    with pytest.raises(ValueError, match=r"expected the state of SGD \(nothing\), got 'm/"):
        SGD().load_state_arrays(adam.state_arrays(), {})
    with pytest.raises(ValueError, match=r"state of Adam \(m/, v/, t/\), each for the same"):
        Adam().load_state_arrays({"m/W": np.zeros(2)}, {})
    with pytest.raises(ValueError, match=r"state of Adadelta \(g2/, d2/, t/\), got 'm/"):
        Adadelta().load_state_arrays(adam.state_arrays(), {})


def test_state_is_named_after_the_paper():
    adam, sgd = Adam(), SGD()
    for optimizer in (adam, sgd):
        optimizer.update(*make())
    assert sgd.state_arrays() == {}
    assert adam.state_arrays().keys() == {f"{kind}/{name}" for kind in "mvt" for name in make()[0]}
    assert adam.state_arrays()["t/W"] == 1


@pytest.mark.parametrize("max_norm, clipped", [(0.05, True), (1e3, False), (None, False)])
def test_gradient_scale(max_norm, clipped):
    gradients = make()[1]
    total = np.concatenate([g.ravel() for g in dense(gradients).values()]) / 16
    scale, norm = gradient_scale(gradients, 16, max_norm)
    np.testing.assert_allclose(norm, np.linalg.norm(total), rtol=1e-13)
    expected = max_norm / np.linalg.norm(total) / 16 if clipped else 1 / 16
    np.testing.assert_allclose(scale, expected, rtol=1e-13)


def test_norm_of_many_small_float32_values(monkeypatch):
    monkeypatch.setattr(optimizers, "SLICE", 1 << 16)
    gradient = np.random.default_rng(0).standard_normal(3_000_000).astype(np.float32)
    _, norm = gradient_scale({"g": gradient}, 1, None)
    np.testing.assert_allclose(norm, np.linalg.norm(gradient.astype(np.float64)), rtol=1e-7)


def test_scale_of_a_zero_gradient_is_finite():
    scale, norm = gradient_scale({"W": np.zeros((2, 3))}, 4, 5.0)
    assert (scale, norm) == (0.25, 0.0)


def test_a_float64_scale_does_not_make_float32_updates_slow_float64_ones():
    parameters, gradients = make("float32")
    scale, _ = gradient_scale(gradients, 4, 0.5)
    factor = scale.astype(np.float32) * np.float32(0.1)
    expected = {name: parameters[name] - g * factor for name, g in dense(gradients).items()}
    SGD(0.1).update(parameters, gradients, scale)
    for name in parameters:
        np.testing.assert_array_equal(parameters[name], expected[name])
    adam, other = Adam(0.1), Adam(0.1)
    again = copies(parameters)
    adam.update(parameters, gradients, scale)
    other.update(again, gradients, scale.astype(np.float32))
    for name in parameters:
        np.testing.assert_array_equal(parameters[name], again[name])


def test_float32_stays_float32_under_a_float64_scale():
    parameters, gradients = make("float32")
    scale, _ = gradient_scale(gradients, 4, 0.5)
    for optimizer in (SGD(0.1), Adam(0.1), Adadelta()):
        optimizer.update(parameters, gradients, scale)
        assert {array.dtype for array in parameters.values()} == {np.dtype("float32")}
        assert {a.dtype for n, a in optimizer.state_arrays().items() if not n.startswith("t/")} \
            <= {np.dtype("float32")}


@pytest.mark.parametrize("gradients, message", [
    ({"nobody": np.zeros(3)}, "'nobody' is not among"),
    ({"W": np.zeros((4, 5))}, r"'W': expected shape \(5, 4\), got \(4, 5\)"),
])
def test_gradients_that_fit_no_parameter(gradients, message):
    parameters, _ = make()
    for optimizer in (SGD(), Adam(), Adadelta()):
        with pytest.raises(ValueError, match=message):
            optimizer.update(parameters, gradients)


def test_a_parameter_whose_update_would_be_lost_is_refused():
    with pytest.raises(ValueError, match="C-contiguous"):
        SGD().update({"W": np.zeros((4, 5)).T}, {"W": np.ones((5, 4))})


@pytest.mark.parametrize("optimizer", [SGD, Adam, Adadelta])
def test_on_a_device_without_waiting(optimizer):
    """The stand-in for CuPy gives the same numbers, without a transfer or a wait."""
    parameters, gradients = make()
    host, device = optimizer(0.1), optimizer(0.1)
    strict.install()
    d_parameters, d_gradients = to_strict(parameters), to_strict(gradients)
    strict.counts.reset()
    for _ in range(2):
        d_scale, d_norm = gradient_scale(d_gradients, 8, 0.3)
        device.update(d_parameters, d_gradients, d_scale)
    assert (strict.counts.to_host, strict.counts.syncs) == (0, 0)
    for _ in range(2):
        scale, norm = gradient_scale(gradients, 8, 0.3)
        host.update(parameters, gradients, scale)
    np.testing.assert_allclose(backend.to_host(d_norm), norm, rtol=1e-14)
    for name in parameters:
        np.testing.assert_allclose(backend.to_host(d_parameters[name]), parameters[name],
                                   rtol=1e-13)
