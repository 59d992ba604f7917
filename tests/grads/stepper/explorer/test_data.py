"""The data of the explorer: complete, right, verified."""

import json
import math

import numpy as np
import pytest
from explored import STATUSES, data, step_of, values

from grads.derivations.examples import Sizes
from grads.stepper.explorer import build, examples, times
from grads.stepper.explorer.expand import FUNCTIONS
from grads.stepper.explorer.sums import is_scaled
from grads.stepper.tracing.derivations import DERIVATIONS, find
from grads.stepper.tracing.source import equations

NAMES = list(DERIVATIONS)
MODELS = ["rnn", "lstm", "nmt", "attention", "rnnsearch", "hybrid"]
ROUNDING = 3e-10  # of a difference of losses over twice the central step


# --- the schema ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_is_referred_to_is_there(name):
    d = data(name)
    assert d["name"] == name and d["title"] and d["notes"] == []
    check_references(d)


@pytest.mark.parametrize("name", NAMES)
def test_every_derivation_can_be_computed_anew(name):
    program = data(name)["live"]
    assert program is not None and program["inputs"]
    assert not any(leaf["name"].isdigit() for leaf in program["inputs"])  # the menu shows the names


def check_references(d):
    """Raise AssertionError unless all that the parts of a page's data point at is there."""
    count, steps = len(d["tensors"]), d["steps"]
    places = {(column["side"], column["t"]) for column in d["network"]["columns"]}
    passes = [step["pass"] for step in steps]
    assert passes == sorted(passes, reverse=True), "first forward, then backward"
    for step in steps:
        source = d["sources"][step["source"]]
        assert (source["id"], source["pass"]) == (step["source"], step["pass"])
        line = source["lines"][step["line"] - source["first"]]
        assert step["text"].split("\n")[0].strip() in line
        read = [read["tensor"] for read in step["reads"]]
        assert step["targets"] and all(0 <= i < count for i in [*step["targets"], *read])
        assert set(step["cached"]) <= set(read)
        assert len(step["expansions"]) == len(step["targets"])
        if step["cell"] is not None:
            assert (step["cell"]["side"], step["cell"]["t"]) in places
            assert step["cell"]["layer"] is None or (
                1 <= step["cell"]["layer"] <= d["network"]["layers"])
        assert set(step["cited"]) <= set(d["cited"]) and all(d["cited"].values())
        has_source = equations(step["comment"]) or step["cited"]
        assert not (step.get("bookkeeping") and has_source), step["text"]
        assert step["partner"] is None or steps[step["partner"]]["pass"] == "forward"
    for tensor in d["tensors"]:
        if tensor["same_as"] is None and tensor["shape"] is not None:
            assert len(tensor["value"]) == math.prod(tensor["shape"])
    for verification in d["verifications"]:
        assert verification["target"] in steps[verification["step"]]["targets"]
        assert d["tensors"][verification["target"]]["gradient"]
    json.dumps(d, allow_nan=False)


def test_a_long_run_is_shown_at_the_ends_of_its_loops(monkeypatch):
    """Of the steps between them sums and weights of attention are left, whole."""
    long = {"name": "attention", "seed": 1, "layers": 1, "hidden": 1, "embedding": 1,
            "sentence": "a b c d e f g ||| a b c d e f"}
    monkeypatch.setattr(times, "STEPS", 800)
    monkeypatch.setattr(examples, "KEPT", (4,))
    d = build(**long)
    check_references(d)
    assert len(d["steps"]) <= 800 and d["notes"][0].startswith(
        f"Shown in part: {len(d['steps'])} of ")
    assert "(s: 4 of 7, t: 4 of 7)" in d["notes"][0]
    assert {dict(step["loops"])["t"] for step in d["steps"] if step["loops"][:1] and
            step["loops"][0][0] == "t"} == {1, 2, 6, 7}
    assert [step["t"] for step in d["attention"]] == list(range(1, 8))
    for row in d["attention"]:
        assert len(row["weights"]) == 7 and sum(row["weights"]) == pytest.approx(1, abs=1e-3)
    assert {check["status"] for check in d["verifications"]} <= STATUSES
    terms = {d["tensors"][total["target"]]["name"]: len(total["terms"]) for total in d["sums"]}
    assert terms["dW_hy"] == 7


@pytest.mark.parametrize(("name", "limit"), [("lstm", 400_000), ("attention", 1_640_000)])
def test_size_of_the_json(name, limit):
    assert len(json.dumps(data(name), separators=(",", ":"))) < limit


def test_equations_sources_and_network_of_the_lstm():
    d = data("lstm")
    step = d["steps"][step_of(d, "c = f * c_prev", t=2)]
    assert step["comment"] == "(2.36)"
    assert step["cell"] == {"side": "decoder", "t": 2, "layer": 1, "part": "unit"}
    assert d["sources"][step["source"]]["file"] == "grads/derivations/lstm.py"
    words = [(column["word"], column["next"]) for column in d["network"]["columns"]]
    assert words == [("we", "read"), ("read", "the"), ("the", "page"), ("page", "</s>")]
    assert d["settings"]["sentence"] == ["we", "read", "the", "page"]
    assert d["vocabularies"]["output"] == {
        "words": ["<unk>", "</s>", "we", "read", "the", "page"], "size": 6}


@pytest.mark.parametrize(("text", "partner"), [
    ("do = np.tanh(c) * dh", "h = o * np.tanh(c)"),
    ("df = c_prev * dc", "c = f * c_prev + i * h_hat"),
    ("du = np.vstack", "i, f, o, h_hat = np.split(u, 4)"),
    ("da = g_prime(a) * du", "u = g(a)"),
    ("dT_x = da @ x.T", "a = T @ z + b"),
    ("ds = p - one_hot", "p = softmax(s)"),
    ("dW_e = embed_grad", "v[t] = embed"),
])
def test_the_forward_step_that_a_backward_step_differentiates(text, partner):
    d = data("lstm")
    step = d["steps"][step_of(d, text, t=3)]
    forward_step = d["steps"][step["partner"]]
    assert forward_step["text"].startswith(partner) and dict(forward_step["loops"])["t"] == 3


def test_what_the_forward_kept_for_the_backward():
    d = data("lstm")
    step = d["steps"][step_of(d, "df = c_prev * dc", t=3)]
    assert [d["tensors"][i]["name"] for i in step["cached"]] == ["c[2]"]


def test_translation_has_both_sides():
    cells = [step["cell"] for step in data("nmt")["steps"] if step["cell"]]
    assert {(c["side"], c["t"]) for c in cells} == {
        *(("encoder", t) for t in range(1, 5)), *(("decoder", t) for t in range(5, 10))}
    assert {c["layer"] for c in cells} == {None, 1, 2}
    parts = {step["cell"]["part"] for step in data("attention")["steps"] if step["cell"]}
    assert {"embed", "unit", "attention", "output"} <= parts


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_gradient_is_verified(name):
    checks = data(name)["verifications"]
    assert {verification["status"] for verification in checks} <= STATUSES
    verified = [verification for verification in checks if verification["status"] == "verified"]
    assert len(verified) > len(checks) / 2
    assert max(verification["error"] for verification in verified) < 1e-10
    for verification in verified:
        largest = np.abs(values(name, verification["target"])).max(initial=0.0)  # of none: 0
        assert verification["central_error"] < 1e-5 + ROUNDING / max(largest, 1e-300)
    assert all(check["complex"] for check in verified), "compared, and not with nothing"


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_a_plain_run(name):
    d, derivation = data(name), find(name)
    example = derivation.run(sizes=Sizes(layers=1 if name == "hybrid" else 2), seed=1).example
    result = derivation.forward(*example.arguments, **example.named)
    result_of_backward = derivation.backward(*derivation.given(example, result))
    gradients = result_of_backward if isinstance(result_of_backward,
                                                 dict) else result_of_backward[0]
    assert d["loss"] == pytest.approx(float(result[0]), rel=1e-8)
    last = {tensor["name"]: i for i, tensor in enumerate(d["tensors"])}
    total = "saved" if name == "nmt" else "gradients"
    checked = 0
    for key, gradient in gradients.items():
        i = last.get(f"{total}['{key}']")
        if i is not None:
            np.testing.assert_allclose(values(name, i), gradient, rtol=1e-7, atol=1e-12)
            checked += 1
    assert checked == len(gradients)


def evaluated(name, tree):
    """The value of an expansion."""
    kind, rest = tree[0], tree[1:]
    binary = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power,
              "@": np.matmul}
    if kind == "t":
        return values(name, rest[0])
    if kind == "n":
        return rest[0]
    if kind in binary:
        return binary[kind](*(evaluated(name, branch) for branch in rest))
    if kind == "f":
        assert rest[0] in FUNCTIONS
        x = evaluated(name, rest[1])
        s = 1 / (1 + np.exp(-x))
        quarter = 3 * len(np.atleast_1d(x)) // 4
        return {"exp": np.exp, "log": np.log, "tanh": np.tanh, "sigm": lambda x: s,
                "sigm_prime": lambda x: s * (1 - s), "tanh_prime": lambda x: 1 - np.tanh(x) ** 2,
                "g": lambda x: np.vstack([s[:quarter], np.tanh(x[quarter:])]),
                "g_prime": lambda x: np.vstack([(s * (1 - s))[:quarter],
                                                1 - np.tanh(x[quarter:]) ** 2])}[rest[0]](x)
    parts = [evaluated(name, branch) for branch in (rest[1] if kind == "stack" else rest)]
    if kind == "at":
        return parts[0][tuple(int(index) for index in parts[1:])]
    if kind == "softmax":
        return np.exp(parts[0]) / np.exp(parts[0]).sum()
    if kind == "one_hot":
        return np.eye(6)[:, [int(parts[0])]]
    return {"neg": lambda: -parts[0], "T": lambda: parts[0].T,
            "stack": lambda: np.concatenate(parts, axis=rest[0])}[kind]()


def test_expansions_give_the_numbers_of_their_tensors():
    d, seen = data("lstm"), set()
    for step in d["steps"]:
        for target, tree in zip(step["targets"], step["expansions"], strict=True):
            if tree is not None:
                expected = values("lstm", target)
                np.testing.assert_allclose(np.broadcast_to(evaluated("lstm", tree), expected.shape),
                                           expected, rtol=1e-6, atol=1e-8, err_msg=step["text"])
                seen.add(step["text"])
    assert {"c = f * c_prev + i * h_hat", "dT_h = da @ h_prev.T",
            "ds = p - one_hot(y, len(p))", "da = g_prime(a) * du"} <= seen


@pytest.mark.parametrize("name", MODELS)
def test_sums_add_up(name):
    d = data(name)
    assert len(d["sums"]) >= 5
    for summed in d["sums"]:
        total = sum(np.array(term["value"]) for term in summed["terms"])
        np.testing.assert_allclose(total, values(name, summed["target"]).ravel(), rtol=1e-4,
                                   atol=1e-5)


def test_sums_over_time_have_one_term_for_each_step():
    d = data("lstm")
    iterations = {d["tensors"][total["target"]]["name"]: [term["loops"] for term in total["terms"]]
             for total in d["sums"]}
    assert set(iterations) == {"dT", "db", "dW_e", "dW_hy", "db_hy"}
    assert all(loops == [[["t", t]] for t in (4, 3, 2, 1)] for loops in iterations.values())


@pytest.mark.parametrize(("text", "scaled"), [
    ("dc = dc * f", True), ("dc *= f", True), ("dh = U.T @ dh + d", True), ("dW += f * dW2", False),
    ("dW, db = dW + da @ x.T, db + da", False), ("dW_e = embed_grad(x[t], dx, dW_e)", False)])
def test_a_product_with_the_old_value_adds_no_term(text, scaled):
    name = text.split()[0].strip(",")
    assert is_scaled(text, name) is scaled


@pytest.mark.parametrize(("text", "scaled"), [
    ("else: dW = dW + a", False), ("elif c: dW *= a", True), ("finally: dW = a * dW", True),
    ("y = 2 * dW; dW = dW + y", False), ("for a in b: dW = dW * a", True),
    ("x) * y; dW = dW + a", False)])
def test_a_sum_may_stand_anywhere_in_a_line(text, scaled):
    assert is_scaled(text, "dW") is scaled


@pytest.mark.parametrize("name", ["attention", "transformer"])
def test_what_a_step_reads_has_the_name_that_it_had_then(name):
    d = data(name)
    makers = {tensor: number for number, step in enumerate(d["steps"])
              for tensor in step["targets"]}
    for number, step in enumerate(d["steps"]):
        for read in step["reads"]:
            assert makers.get(read["tensor"], -1) <= number, (step["text"], read)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_curves_are_v_shaped_for_differences_and_flat_for_the_complex_step(name):
    d = data(name)
    shown = [check for check in d["verifications"] if check["error"] is not None]
    for verification in shown:
        errors = [-17, *verification["curve"]["complex"][8:]]
        assert max(error for error in errors if error is not None) < -10
    curves = [check["curve"]["central"] for check in shown
              if abs(values(name, check["target"]).ravel()[check["curve"]["entry"]]) > 1e-3]
    best = [min(-17 if error is None else error for error in central) for central in curves]
    ends = [-17 if central[-1] is None else central[-1] for central in curves]
    assert len(best) > 10 and max(best) < -6 and np.median(ends) > -3


def test_loss_along_a_weight_has_the_gradient_for_its_slope():
    d, derivation = data("lstm"), find("lstm")
    assert d["line_offsets"][4] == 0
    verification = next(check for check in d["verifications"] if check["name"] == "gradients['T']")
    gradient = values("lstm", verification["target"]).ravel()
    assert len(verification["lines"]) == gradient.size
    run = derivation.run(sizes=Sizes(), seed=1)
    parameters, x, y = run.example.arguments
    for entry in (0, 17, 46):
        T = parameters["T"].copy()
        T.flat[entry] += d["line_offsets"][7]
        expected = derivation.forward({**parameters, "T": T}, x, y)[0] - d["loss"]
        line = verification["lines"][entry]
        assert line[7] == pytest.approx(expected, rel=1e-3) and line[4] == 0
        slope = (line[5] - line[3]) / 0.25
        assert slope == pytest.approx(gradient[entry], rel=0.05)
