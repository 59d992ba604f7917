"""The page as a file: self-contained, whole or not at all, its equations those of the code."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from explored import element

import grads.derivations
from backend.errors import UserError
from grads.derivations.scores import SCORES
from grads.stepper.explorer import cited as cites
from grads.stepper.explorer import data as explorer
from grads.stepper.explorer.cited import ERRATA, cited, errata, names, said
from grads.stepper.explorer.expand import expansions
from grads.stepper.explorer.formulas import formulas, key
from grads.stepper.explorer.page import DERIVATION, VANISHING
from grads.stepper.tracing.derivations import DERIVATIONS, MODULES
from grads.stepper.tracing.source import equations
from nmt.pages import page as page_module
from nmt.pages.page import (
    LIMIT,
    SEARCH,
    Layout,
    inlined,
    packed,
    page_of,
    read,
    write_page,
)
from nmt.serving.page import SERVE


def statements() -> set[str]:
    """Every statement of the derivations, as the tracer writes it."""
    texts = set()
    for path in Path(str(grads.derivations.__file__)).parent.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                lines = (ast.get_source_segment(source, node) or "").split("\n")
                texts.add(" ".join(" ".join(re.sub(r"\s+#.*", "", line) for line in lines).split()))
    return texts


PLACE = re.compile(r"^\{([\w-]+)\} ")


def test_equations_belong_to_lines_that_exist() -> None:
    assert {PLACE.sub("", formula) for formula in formulas()} - statements() == set()
    places = {match[1] for formula in formulas() if (match := PLACE.match(formula))}
    functions = {name.removesuffix("_grad") for module in MODULES for name in vars(module)}
    assert places - functions - {*DERIVATIONS, *SCORES, "unfed"} == set()


def test_the_nearest_place_decides_the_equation() -> None:
    softmax = "e = np.exp(s - s.real.max())"
    assert key(softmax) == softmax == key(softmax, ["softmax", "predict"])
    assert key(softmax, ["softmax", "align_global", "attend"]) == f"{{attend}} {softmax}"
    assert key("q = W_a @ h", ["additive_score", "context"]) == "{context} q = W_a @ h"


# --- what lines cite ----------------------------------------------------------------------------


def test_errata_are_those_of_the_document() -> None:
    assert errata() == cites.read(ERRATA.read_text(encoding="utf-8"))
    assert errata()["4"]["text"][0].startswith("Eqs. 2.47-2.50 print g'(T_lstm z_t), at the pre")


def test_everything_that_an_equation_s_words_cite_is_said() -> None:
    cites = [cited for formula in formulas().values() for cited in names(formula["note"])]
    assert len(cites) > 50 and all(said(cited) for cited in cites)
    assert {"Corollary 1", "Lemma 1", "Remark 3", "footnote 5", "erratum 1"} <= set(cites)


def test_citations_in_their_order() -> None:
    assert cited("(2.13) on u (errata 11 and 36), footnote 14; (2.41), Corollary 1, 4.2.13") == [
        "Corollary 1", "erratum 11", "erratum 36", "footnote 14"]
    assert cited("remark (b): sparse update, erratum 99") == ["remark (b)"]
    citation = said("Corollary 1")
    assert citation and citation["text"] == ["v = W h has dh = W^T dv, dW = dv h^T (2.13, 2.14)."]


def test_white_space_does_not_matter_but_the_line_does() -> None:
    assert key("c = f *  c_prev\n   + i * h_hat") == "c = f * c_prev + i * h_hat"
    assert key("c = f * c_prev - i * h_hat") is None


def test_most_lines_with_an_equation_number_have_an_equation(page_for: Any) -> None:
    for name in ("lstm", "attention"):
        lines = {step["text"] for step in page_for(name)[0]["steps"] if equations(step["comment"])}
        assert {line for line in lines if key(line) is None} == set()


def test_page_holds_the_data_and_only_the_equations_in_use(page_for: Any) -> None:
    data, path = page_for("lstm")
    page = path.read_text(encoding="utf-8")
    assert element(page, "data") == json.loads(json.dumps(data))
    inside = element(page, "formulas")
    assert set(inside) == {step["formula"] for step in data["steps"] if step["formula"]}
    assert "<math" in inside["c = f * c_prev + i * h_hat"]["html"]


def test_page_loads_nothing(page_for: Any) -> None:
    page = page_for("attention")[1].read_text(encoding="utf-8")
    assert len(page.encode()) < LIMIT
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"|@import|url\((?!data:|#)[^)]*\)', page) == []
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None and policy[1].startswith("default-src 'none';")
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]


def test_every_asset_is_in_a_page() -> None:
    layouts = (DERIVATION, VANISHING, SEARCH, SERVE)
    used = {name for layout in layouts for name in layout.modules}
    assert {path.stem for layout in layouts for directory in layout.directories
            for path in directory.glob("*.js")} == used


def test_same_data_makes_the_same_page(page_for: Any) -> None:
    data, path = page_for("lstm")
    assert page_of(data, DERIVATION) == path.read_text(encoding="utf-8")


def test_title_is_escaped(page_for: Any) -> None:
    page = page_of({**page_for("lstm")[0], "title": "</title><script>alert(1)</script>"},
                   DERIVATION)
    assert "<script>alert" not in page and "&lt;script&gt;" in page


def test_too_large_a_page_is_refused_and_the_file_left(page_for: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text("as it was")
    rng = random.Random(0)
    noise = [rng.random() for _ in range(300_000)]
    with pytest.raises(UserError, match=r"large\.html: expected a page under 1 MB"):
        write_page({**page_for("lstm")[0], "noise": noise}, path, DERIVATION)
    assert path.read_text() == "as it was" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("left", [1, 2])
def test_changes_then_bugs_are_left_out_where_they_make_a_page_too_large(
    left: int, page_for: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = page_for("lstm")
    assert data["variants"] and data["live"]
    monkeypatch.setattr(explorer, "build", lambda name: data)
    names = [name for name, _, _ in explorer.SPARED][:left]
    kept = data | {name: nothing for name, nothing, _ in explorer.SPARED[: left - 1]}
    limit = len(page_of(kept, DERIVATION).encode()) if left > 1 else path.stat().st_size
    for module in (explorer, page_module):
        monkeypatch.setattr(module, "LIMIT", limit)
    written = explorer.explore("lstm", tmp_path / "page.html").read_text(encoding="utf-8")
    inside = element(written, "data")
    assert [name for name in ("live", "variants") if not inside[name]] == names
    notes = [note for _, _, note in explorer.SPARED[:left]]
    assert inside["notes"] == [*data["notes"], *notes]
    assert inside["tensors"] == json.loads(json.dumps(data["tensors"]))


def test_a_path_that_cannot_be_written(page_for: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_page(page_for("lstm")[0], tmp_path / "file" / "page.html", DERIVATION)


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        packed({"value": float("nan")})


@pytest.mark.parametrize("layout", [DERIVATION, VANISHING, SEARCH, SERVE],
                         ids=lambda layout: layout.templates[0])
def test_modules_import_only_what_stands_before_them(layout: Layout) -> None:
    modules = layout.modules
    text = {name: read(layout, f"{name}.js") for name in modules}
    for place, name in enumerate(modules):
        for wanted, module in re.findall(r'import \{([^}]*)\} from "\./(\w+)\.js";', text[name]):
            assert module in modules[:place], f"{name} imports {module}"
            exported = set(re.findall(r"^export (?:async )?(?:function|const|class) (\w+)",
                                      text[module], re.MULTILINE))
            assert {imported.strip()
                    for imported in wanted.split(",")} <= exported, f"{name} of {module}"
    assert "import {" not in inlined(layout)


# --- expansions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "reads", "tree"), [
    ("c = f * c_prev + i * h_hat", {"f": 1, "c_prev": 2, "i": 3, "h_hat": 4},
     ["+", ["*", ["t", 1, "f"], ["t", 2, "c_prev"]], ["*", ["t", 3, "i"], ["t", 4, "h_hat"]]]),
    ("dh = W_hy.T @ ds", {"W_hy.T": 5, "ds": 6, "W_hy": 5},
     ["@", ["T", ["t", 5, "W_hy"]], ["t", 6, "ds"]]),
    ("ds = p - one_hot(y, len(p))", {"p": 1, "y": 2},
     ["-", ["t", 1, "p"], ["one_hot", ["t", 2, "y"]]]),
    ("do = np.tanh(c) * dh", {"c": 1, "dh": 2},
     ["*", ["f", "tanh", ["t", 1, "c"]], ["t", 2, "dh"]]),
    ("h[t] = h[t - 1]", {"h[t - 1]": 1}, None),  # a name alone computes nothing
    ("p = g(a)[0]", {}, None),
    ("c = f * unknown", {"f": 1}, None),
])
def test_trees(text: str, reads: dict[str, int], tree: list[Any] | None) -> None:
    assert expansions(text, reads, 1) == [tree]


def test_trees_of_several_targets() -> None:
    reads = {"dT": 1, "dT_t": 2, "db": 3, "db_t": 4}
    assert expansions("dT, db = dT + dT_t, db + db_t", reads, 2) == [
        ["+", ["t", 1, "dT"], ["t", 2, "dT_t"]], ["+", ["t", 3, "db"], ["t", 4, "db_t"]]]
    assert expansions("h, c = lstm(x)", {"x": 1}, 2) == [None, None]


@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_wrong_tensors_have_other_numbers(name: str, page_for: Any) -> None:
    """A tensor's wrong numbers are its own in the variant, or those of one that it passes on."""
    data, _ = page_for(name)

    def wrong(tensor: int, values: dict[int, Any]) -> Any:
        shared = data["tensors"][tensor].get("same_as")
        return values.get(tensor) or (None if shared is None else wrong(shared, values))

    for variant in data["variants"]:
        missing = [data["tensors"][tensor_id]["name"] for tensor_id in variant["wrong"]
                   if not wrong(tensor_id, variant["values"])]
        assert missing == [], variant["id"]
