"""The data of the explorer: complete, right, proved; wrong variants wrong from where they say."""

import json
import math
from functools import cache

import numpy as np
import pytest

from backend.errors import UserError
from grads.explorer import build
from grads.explorer.expand import FUNCTIONS
from grads.tracing.derivations import DERIVATIONS, find
from grads.tracing.examples import Sizes

NAMES = list(DERIVATIONS)
MODELS = ["rnn", "lstm", "nmt", "attention", "rnnsearch"]
STATUSES = {"proved", "partial", "same", "zero", "share"}


@cache
def data(name):
    return build(name)


def original(tensors, i):
    while tensors[i]["same_as"] is not None:
        i = tensors[i]["same_as"]
    return i


def values(name, i, variant=None):
    """The numbers of a tensor, in a variant if given, as an array of its shape."""
    tensors = data(name)["tensors"]
    shape = tensors[i]["shape"]
    changed = {} if variant is None else variant["values"]
    while i not in changed and tensors[i]["same_as"] is not None:
        i = tensors[i]["same_as"]
    return np.array(changed.get(i, tensors[i]["value"]), float).reshape(shape)


def step_of(d, text, **loops):
    """The number of the first step with that text, in those turns of loops."""
    return next(i for i, step in enumerate(d["steps"]) if step["text"].startswith(text)
                and loops.items() <= dict(step["loops"]).items())


# --- the schema ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_is_referred_to_is_there(name):
    d = data(name)
    count, steps = len(d["tensors"]), d["steps"]
    assert d["version"] == 1 and d["name"] == name and d["title"] and d["notes"] == []
    places = {(column["side"], column["t"]) for column in d["network"]["columns"]}
    turned = [step["pass"] for step in steps]
    assert turned == sorted(turned, reverse=True), "first forward, then backward"
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
        assert step["partner"] is None or steps[step["partner"]]["pass"] == "forward"
    for tensor in d["tensors"]:
        if tensor["same_as"] is None and tensor["shape"] is not None:
            assert len(tensor["value"]) == math.prod(tensor["shape"])
    for proof in d["proofs"]:
        assert proof["target"] in steps[proof["step"]]["targets"]
        assert d["tensors"][proof["target"]]["gradient"]
    json.dumps(d, allow_nan=False)


@pytest.mark.parametrize(("name", "limit"), [("lstm", 400_000), ("attention", 1_500_000)])
def test_size_of_the_json(name, limit):
    assert len(json.dumps(data(name), separators=(",", ":"))) < limit


def test_equations_sources_and_network_of_the_lstm():
    d = data("lstm")
    step = d["steps"][step_of(d, "c = f * c_prev", t=2)]
    assert step["equations"] == ["2.36"] and step["comment"] == "(2.36)" and step["depth"] == 1
    assert step["cell"] == {"side": "decoder", "t": 2, "layer": 1, "part": "unit"}
    assert d["sources"][step["source"]]["file"] == "grads/derivations/lstm.py"
    words = [(column["word"], column["next"]) for column in d["network"]["columns"]]
    assert words == [("we", "read"), ("read", "the"), ("the", "page"), ("page", "</s>")]
    assert d["settings"]["sentence"] == ["we", "read", "the", "page"]
    assert d["vocabularies"]["output"] == ["<unk>", "</s>", "we", "read", "the", "page"]


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
    found = d["steps"][step["partner"]]
    assert found["text"].startswith(partner) and dict(found["loops"])["t"] == 3


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
def test_every_gradient_is_proved(name):
    found = data(name)["proofs"]
    assert {proof["status"] for proof in found} <= STATUSES
    proved = [proof for proof in found if proof["status"] == "proved"]
    assert len(proved) > len(found) / 2
    assert max(proof["error"] for proof in proved) < 1e-10
    assert max(proof["central_error"] for proof in proved) < 1e-5
    assert all(proof["complex"] for proof in proved), "compared, and not with nothing"


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_a_plain_run(name):
    d, derivation = data(name), find(name)
    example = derivation.run(sizes=Sizes(), seed=1).example
    result = derivation.forward(*example.arguments, **example.named)
    made = derivation.backward(*derivation.given(example, result))
    gradients = made if isinstance(made, dict) else made[0]
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
        return binary[kind](*(evaluated(name, one) for one in rest))
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
    parts = [evaluated(name, one) for one in (rest[1] if kind == "stack" else rest)]
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
    assert {"c = f * c_prev + i * h_hat", "dT_h = da @ h_prev.T", "l = -np.log(p[y, 0])",
            "ds = p - one_hot(y, len(p))", "da = g_prime(a) * du"} <= seen


@pytest.mark.parametrize("name", MODELS)
def test_sums_add_up(name):
    d = data(name)
    assert len(d["sums"]) >= 5
    for one in d["sums"]:
        total = sum(np.array(term["value"]) for term in one["terms"])
        np.testing.assert_allclose(total, values(name, one["target"]).ravel(), rtol=1e-4, atol=1e-5)


def test_sums_over_time_have_one_term_for_each_step():
    d = data("lstm")
    turns = {d["tensors"][one["target"]]["name"]: [term["loops"] for term in one["terms"]]
             for one in d["sums"]}
    assert set(turns) == {"dT", "db", "dW_e", "dW_hy", "db_hy"}
    assert all(found == [[["t", t]] for t in (4, 3, 2, 1)] for found in turns.values())


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_curves_are_v_shaped_for_differences_and_flat_for_the_complex_step(name):
    d = data(name)
    shown = [proof for proof in d["proofs"] if proof["error"] is not None]
    for proof in shown:
        assert max(one for one in [-17, *proof["curve"]["complex"][8:]] if one is not None) < -10
    curves = [proof["curve"]["central"] for proof in shown
              if abs(values(name, proof["target"]).ravel()[proof["curve"]["entry"]]) > 1e-3]
    best = [min(-17 if one is None else one for one in central) for central in curves]
    ends = [-17 if central[-1] is None else central[-1] for central in curves]
    assert len(best) > 10 and max(best) < -6 and np.median(ends) > -3


def test_loss_along_a_weight_has_the_gradient_for_its_slope():
    d, derivation = data("lstm"), find("lstm")
    assert d["line_offsets"][4] == 0
    proof = next(one for one in d["proofs"] if one["name"] == "gradients['T']")
    gradient = values("lstm", proof["target"]).ravel()
    assert len(proof["lines"]) == gradient.size
    run = derivation.run(sizes=Sizes(), seed=1)
    parameters, x, y = run.example.arguments
    for entry in (0, 17, 46):
        T = parameters["T"].copy()
        T.flat[entry] += d["line_offsets"][7]
        expected = derivation.forward({**parameters, "T": T}, x, y)[0] - d["loss"]
        line = proof["lines"][entry]
        assert line[7] == pytest.approx(expected, rel=1e-3) and line[4] == 0
        slope = (line[5] - line[3]) / 0.25
        assert slope == pytest.approx(gradient[entry], rel=0.05)


# --- wrong backward passes ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if DERIVATIONS[name].breaks])
def test_variants_are_wrong_at_and_after_their_first_step_and_right_before(name):
    d = data(name)
    assert len({variant["id"] for variant in d["variants"]}) == len(d["variants"]) >= 3
    maker = {i: number for number, step in enumerate(d["steps"]) for i in step["targets"]}
    for variant in d["variants"]:
        made = [maker[i] for i in variant["wrong"]]
        assert made == sorted(made) and made[0] == variant["first_wrong"]
        wrong = set(variant["wrong"])
        assert set(variant["values"]) <= wrong
        for i in wrong:
            right, other = values(name, i), values(name, i, variant)
            assert np.abs(right - other).max() > 1e-9 * max(np.abs(right).max(), 1e-3)
        judged = {i for i, proof in enumerate(d["proofs"])
                  if proof["error"] is not None and proof["target"] in wrong}
        assert judged == set(variant["proofs"]) and judged, variant["id"]
        assert variant["from"] != variant["to"] and variant["why"] and variant["function"]


def test_variant_numbers_are_those_of_the_wrong_function():
    d, derivation = data("lstm"), find("lstm")
    variant = next(one for one in d["variants"] if one["id"] == "dc-not-carried")
    edits = derivation.broken("dc not carried")
    result = derivation.run(sizes=Sizes(), seed=1, edits=edits).backward.result[0]
    last = {tensor["name"]: i for i, tensor in enumerate(d["tensors"])}
    for key, gradient in result.items():
        np.testing.assert_allclose(values("lstm", last[f"gradients['{key}']"], variant), gradient,
                                   rtol=2e-3, atol=1e-5)
    assert next((one["text"], one["step"]) for one in variant["edited"]) == (
        "dc = tanh_prime(c) * o * dh", step_of(d, "dc = dc + tanh_prime", t=4))


def test_errata_are_among_the_variants():
    of_lstm = {variant["id"]: variant for variant in data("lstm")["variants"]}
    assert {"sign-of-ds-as-printed", "dc-not-carried", "dropped-recurrent-term", "dt-as-printed",
            "g-at-the-activation"} <= set(of_lstm)
    assert of_lstm["dt-as-printed"]["first_wrong"] == step_of(data("lstm"), "dT, db = dT", t=3)
    assert "transposed-weight" in {variant["id"] for variant in data("rnn")["variants"]}
    assert {"input-feeding-forgotten", "softmax-without-p-p-t"} <= {
        variant["id"] for variant in data("attention")["variants"]}


# --- gradient flow ------------------------------------------------------------------------------


def test_gradients_flow_below_the_bound_and_through_open_forget_gates():
    flow = data("lstm")["flow"]
    by_unit = {(one["unit"], one["forget_bias"], one["radius"]): one for one in flow["series"]}
    for one in flow["series"]:
        assert len(one["norms"]) == len(flow["lags"]) and one["norms"][0] == 1
        if one["unit"] == "rnn":
            assert one["bound"][1] == pytest.approx(one["radius"])
            assert all(norm <= bound * 1.001
                       for norm, bound in zip(one["norms"], one["bound"], strict=True))
    assert by_unit["rnn", None, 0.5]["norms"][20] < 1e-6
    assert by_unit["lstm", 4.0, 0.5]["norms"][20] > 1e-2
    assert by_unit["lstm", 0.0, 0.5]["norms"][20] < 1e-3
    assert data("gru")["flow"] is None


# --- settings -----------------------------------------------------------------------------------


def test_sentence_sizes_and_command():
    d = build("attention", sentence="a b", target="c", hidden=2, embedding=3, layers=1, seed=5,
              score="dot")
    assert (d["settings"]["sentence"], d["settings"]["target"]) == (["a", "b"], ["c"])
    assert d["network"]["layers"] == 1 and len(d["network"]["columns"]) == 4
    assert d["command"] == ('grads explore attention --sentence "a b" --target c --hidden 2 '
                            "--embedding 3 --layers 1 --score dot --seed 5 -o attention.html")
    assert "score-s-weight-transposed" not in {variant["id"] for variant in d["variants"]}


@pytest.mark.parametrize("settings", [
    {"window": "local-p", "score": "concat"}, {"window": "local-m"}, {"score": "additive"},
    {"score": "location"}])
def test_scores_and_windows(settings):
    found = build("attention-step", **settings)["proofs"]
    assert {"proved"} <= {proof["status"] for proof in found} <= STATUSES
    assert max(proof["error"] or 0 for proof in found) < 1e-10


def test_large_tensors_are_sliced_and_that_is_said():
    d = build("lstm", hidden=40, sentence="a b")
    assert "first entries" in d["notes"][0]
    cut = [tensor for tensor in d["tensors"] if "full_shape" in tensor]
    assert any(tensor["full_shape"] == [160, 42] for tensor in cut)
    assert max(len(tensor["value"] or []) for tensor in d["tensors"]) <= 256
    proofs = [proof for proof in d["proofs"] if proof["status"] == "proved"]
    assert min(proof.get("checked", 9) for proof in proofs) == 2
    assert {proof["status"] for proof in d["proofs"]} <= STATUSES
    assert len(json.dumps(d, separators=(",", ":"))) < 1_500_000


@pytest.mark.parametrize(("name", "settings", "message"), [
    ("lstn", {}, "did you mean 'lstm'"),
    ("lstm", {"sentence": "  "}, "sentence: expected at least one word"),
    ("lstm", {"target": "a"}, "target: lstm has none; nmt, attention, rnnsearch have"),
    ("lstm", {"layers": 2}, "layers: lstm has none"),
    ("gru", {"sentence": "a"}, "sentence: gru has none"),
    ("attention", {"sentence": "a", "target": ""}, "target: expected at least one word"),
    ("lstm", {"hidden": 0}, "hidden: expected 1 or more, got 0"),
    ("attention", {"score": "dor"}, "score: expected one of dot"),
    ("lstm", {"model": "x", "hidden": 3}, "hidden: a trained model has its own"),
    ("lstm", {"model": "/nowhere"}, "/nowhere: expected the model directory of a language model"),
    ("no.py:f", {}, "no.py: expected a Python file, found none"),
])
def test_bad_input_is_one_clear_line(name, settings, message):
    with pytest.raises(UserError) as caught:
        build(name, **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
