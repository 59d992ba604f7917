"""Wrong variants are wrong from where they say; gradient flow; settings and bad input."""

import json

import numpy as np
import pytest
from explored import STATUSES, data, step_of, values

from backend.errors import UserError
from grads.derivations.examples import Sizes
from grads.stepper.explorer import build
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.page import DERIVATION
from grads.stepper.explorer.settings import Settings
from grads.stepper.tracing.derivations import DERIVATIONS, find
from nmt.pages.page import write_page
from tests.grads.stepper.explorer.conftest import Opened

# --- wrong backward passes ----------------------------------------------------------------------


@pytest.mark.parametrize("name",
                         [name for name, derivation in DERIVATIONS.items() if derivation.breaks])
def test_variants_are_wrong_at_and_after_their_first_step_and_right_before(name):
    d = data(name)
    assert len({variant["id"] for variant in d["variants"]}) == len(d["variants"]) >= 3
    maker = {i: number for number, step in enumerate(d["steps"]) for i in step["targets"]}
    for variant in d["variants"]:
        steps = [maker[i] for i in variant["wrong"]]
        assert steps == sorted(steps)
        wrong = set(variant["wrong"])
        assert set(variant["values"]) <= wrong
        for i in wrong:
            right, changed = values(name, i), values(name, i, variant)
            assert np.abs(right - changed).max() > 1e-9 * max(np.abs(right).max(), 1e-3)
        compared = {i for i, verification in enumerate(d["verifications"])
                  if verification["error"] is not None and verification["target"] in wrong}
        assert compared == set(variant["verifications"]) and compared, variant["id"]
        assert variant["from"] != variant["to"] and variant["why"] and variant["function"]


def test_variant_numbers_are_those_of_the_wrong_function():
    d, derivation = data("lstm"), find("lstm")
    variant = next(candidate for candidate in d["variants"] if candidate["id"] == "dc-not-carried")
    edits = derivation.broken("dc not carried")
    result = derivation.run(sizes=Sizes(), seed=1, edits=edits).backward.result[0]
    last = {tensor["name"]: i for i, tensor in enumerate(d["tensors"])}
    for key, gradient in result.items():
        np.testing.assert_allclose(values("lstm", last[f"gradients['{key}']"], variant), gradient,
                                   rtol=2e-3, atol=1e-5)
    assert next((edit["text"], edit["step"]) for edit in variant["edited"]) == (
        "dc = tanh_prime(c) * o * dh", step_of(d, "dc = dc + tanh_prime", t=4))


def test_errata_are_among_the_variants():
    of_lstm = {variant["id"]: variant for variant in data("lstm")["variants"]}
    assert {"sign-of-ds-as-printed", "dc-not-carried", "dropped-recurrent-term", "dt-as-printed",
            "g-at-the-activation"} <= set(of_lstm)
    first = step_of(data("lstm"), "dT, db = dT", t=3)
    assert of_lstm["dt-as-printed"]["wrong"][0] in data("lstm")["steps"][first]["targets"]
    assert "transposed-weight" in {variant["id"] for variant in data("rnn")["variants"]}
    assert {"input-feeding-forgotten", "softmax-without-p-p-t"} <= {
        variant["id"] for variant in data("attention")["variants"]}


# --- predict, and find the bug, on the pages of all derivations ----------------------------------

PREDICTED = """() => {
    const kinds = new Set();
    for (let k = 0; k < 40; k += 1) {
        kinds.add(document.body.dataset.hidden);
        document.getElementById("reveal").click();
        if (!document.getElementById("judged").textContent.startsWith("It is ")) return [];
        document.getElementById("next-question").click();
    }
    return [...kinds];
}"""  # the kinds of questions, each answered


@pytest.mark.parametrize("name", list(DERIVATIONS))
def test_a_page_has_bugs_if_its_derivation_has(name):
    assert any(variant["edited"] for variant in data(name)["variants"]) == bool(find(name).breaks)


# With words and without, recurrent or not, with bugs and without. Others are asked in test_practice
ASKING = ("rnn", "adding-memory", "simplified", "lexical", "features", "transformer-postnorm",
          "countdown", "scale-norm", "attention-head", "smoothing", "gru-context", "residual",
          "factored", "deep-fusion")


@pytest.mark.parametrize("name", ASKING)
def test_a_page_asks_and_offers_bugs_to_find(name, browser, tmp_path):
    write_page(data(name), tmp_path / "page.html", DERIVATION)
    window = Opened(browser, tmp_path / "page.html", "#step=1")
    window.page.keyboard.press("p")
    kinds = window.page.evaluate(PREDICTED)
    assert len(kinds) >= 2 and set(kinds) <= {"shape", "sign", "formula", "value"}
    assert bool(window.page.query_selector("#mode-hunt")) == bool(find(name).breaks)
    if find(name).breaks:
        window.page.click("#mode-hunt")
        assert window.page.is_visible("#mark")
    assert window.complaints == []
    window.context.close()


# --- gradient flow ------------------------------------------------------------------------------


def test_gradients_flow_below_the_bound_and_through_open_forget_gates():
    flow = data("lstm")["flow"]
    by_unit = {(curve["unit"], curve["forget_bias"], curve["radius"]): curve
               for curve in flow["series"]}
    for curve in flow["series"]:
        assert len(curve["norms"]) == len(flow["lags"]) and curve["norms"][0] == 1
        if curve["unit"] == "rnn":
            assert curve["bound"][1] == pytest.approx(curve["radius"])
            assert all(norm <= bound * 1.001
                       for norm, bound in zip(curve["norms"], curve["bound"], strict=True))
    assert by_unit["rnn", None, 0.5]["norms"][20] < 1e-6
    assert by_unit["lstm", 4.0, 0.5]["norms"][20] > 1e-2
    assert by_unit["lstm", 0.0, 0.5]["norms"][20] < 1e-3
    # (1 - z) o dh_t does not pass through a matrix
    assert by_unit["gru", None, 0.5]["norms"][20] > 100 * by_unit["rnn", None, 0.5]["norms"][20]
    assert data("gru")["flow"] == flow and data("attention-step")["flow"] is None


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
    checks = open_example("attention-step", Settings(**settings)).verifications()
    assert {"verified"} <= {verification.status for verification in checks} <= STATUSES
    assert max(verification.error or 0 for verification in checks) < 1e-10


def test_large_tensors_are_sliced_and_that_is_said():
    d = build("lstm", hidden=40, sentence="a b")
    assert "first entries" in d["notes"][0]
    cut = [tensor for tensor in d["tensors"] if "full_shape" in tensor]
    assert any(tensor["full_shape"] == [160, 42] for tensor in cut)
    assert max(len(tensor["value"] or []) for tensor in d["tensors"]) <= 256
    verifications = [check for check in d["verifications"] if check["status"] == "verified"]
    assert min(verification.get("checked", 9) for verification in verifications) == 2
    assert {verification["status"] for verification in d["verifications"]} <= STATUSES
    assert len(json.dumps(d, separators=(",", ":"))) < 1_500_000


@pytest.mark.parametrize(("name", "settings", "message"), [
    ("lstn", {}, "did you mean 'lstm'"),
    ("lstm", {"sentence": "  "}, "sentence: expected at least one word"),
    ("lstm", {"target": "a"},
     "target: lstm has none; nmt, multitask, rnnsearch, attention, transformer, "
     "transformer-postnorm, hybrid, hybrid-same, lexical, lexicon, encoder-decoder, simplified, "
     "countdown, features have"),
    ("hybrid", {"model": "x"}, "x: expected the run directory of a translator"),
    ("lstm", {"layers": 2}, "layers: lstm has none"),
    ("gru", {"sentence": "a"}, "sentence: gru has none"),
    ("attention", {"sentence": "a", "target": ""}, "target: expected at least one word"),
    ("lstm", {"hidden": 0}, "hidden: expected 1 or more, got 0"),
    ("attention", {"score": "dor"}, "score: expected one of dot"),
    ("lstm", {"model": "x", "hidden": 3}, "hidden: a trained model has its own"),
    ("lstm", {"model": "/nowhere"}, "/nowhere: expected the run directory of a translator"),
    ("no.py:f", {}, "no.py: expected a Python file, found none"),
])
def test_bad_input_is_one_clear_line(name, settings, message):
    with pytest.raises(UserError) as caught:
        build(name, **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
