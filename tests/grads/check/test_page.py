"""The report page: heat maps, verdicts, what is folded, bounds; opened in a browser."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from axe import findings

from grads.check import check_gradients
from grads.check.case import Labels
from grads.check.heatmap import ORDER, fold, heat_map, level
from grads.check.page import LIMIT, html_page
from grads.check.report import Report
from grads.check.result import ErrorMap, Row


def row_of(shape, where, relative, status=None, name="W", axes=()):
    """A row with the errors of some entries."""
    status = status or ["ok"] * len(where)
    worst = max(status, key=ORDER.index)
    errors = {"complex": float(max(relative))}
    return Row(name, "all", shape, len(where), 0, 0, errors, worst, (), "", 0.0, 0.0, (), ErrorMap(
        np.array(where), np.array(relative), np.array(status, object), "complex", axes))


def cells_of(figure):
    """The classes of the cells of a map, in order."""
    return re.findall(r'<i class="([^"]*)"', figure)


def test_a_small_tensor_has_a_cell_for_each_entry_with_its_place_and_error():
    figure = heat_map(row_of((2, 3), range(6), [0, 1e-16, 1e-13, 1e-9, 1e-5, 0.5],
                             ["ok"] * 5 + ["wrong"]))
    assert cells_of(figure) == ["e0", "e1", "e2", "e4", "e6", "e8 wrong"]
    assert '--columns:3' in figure and 'title="1, 2: 5.0e-01">×</i>' in figure
    assert "folded" not in figure and "axis 1 across; axis 0 down" in figure


def test_shades_are_steps_of_a_hundredfold():
    assert [level(e) for e in (float("nan"), 0.0, 1e-14, 9e-3, 1e-2, np.inf)] == [
        "n", "e0", "e2", "e7", "e8", "e8"]


def test_a_large_tensor_is_folded_to_the_largest_error_and_worst_verdict_of_each_block():
    rng = np.random.default_rng(0)
    relative = rng.random(70 * 100) * 1e-12
    relative[37 * 100 + 61] = 0.3
    status = ["ok"] * relative.size
    status[37 * 100 + 61] = "wrong"
    row = row_of((70, 100), range(relative.size), relative, status)
    folded = fold(row)
    assert folded.block == (3, 3) and folded.error.shape == (24, 34)
    assert folded.error[37 // 3, 61 // 3] == 0.3 and (folded.status == 5).sum() == 1
    blocks = np.full((72, 102), -1.0)
    blocks[:70, :100] = relative.reshape(70, 100)
    expected = blocks.reshape(24, 3, 34, 3).max(axis=(1, 3))
    np.testing.assert_array_equal(folded.error, expected)
    figure = heat_map(row)
    assert "a cell is the largest error of 3 × 3 entries" in figure
    assert 'title="36 to 38, 60 to 62: 3.0e-01">×' in figure and len(cells_of(figure)) == 24 * 34
    assert len(cells_of(heat_map(row, 100))) <= 100


@pytest.mark.parametrize("shape", [(), (1,), (5000,), (3, 2, 4, 5), (1000, 1), (7, 1, 900)])
def test_any_shape_is_bounded_and_complete(shape):
    size = int(np.prod(shape))
    row = row_of(shape, range(size), np.arange(size) / size)
    folded = fold(row)
    assert folded.error.size <= 48 * 32 and not np.isnan(folded.error).any()
    assert folded.error.max() == (size - 1) / size
    assert heat_map(row).count("<i ") == folded.error.size


def test_what_was_not_differentiated_is_said_and_a_nan_is_the_worst():
    figure = heat_map(row_of((4, 2), [0, 5], [1e-16, np.nan], ["ok", "wrong"],
                             axes=("gate", "input")))
    assert cells_of(figure) == ["e1", "n", "n", "n", "n", "e8 wrong", "n", "n"]
    assert "gate down" in figure and "2 of 8 entries differentiated" in figure


def test_nothing_is_drawn_along_directions_alone():
    x = np.random.default_rng(0).normal(size=(3, 4))
    report = check_gradients(lambda a: (a**2).sum(), x, [2 * x])
    assert report.ok and 'class="map"' not in html_page([report])
    report = check_gradients(lambda a: (a**2).sum(), x, [2 * x], every_entry=True)
    assert html_page([report]).count('class="map"') == 1


def test_the_numbers_of_the_map_are_those_of_the_check():
    x = np.random.default_rng(0).normal(size=(3, 4))
    dx = 2 * x
    dx[1, 2] *= 1.5
    report = check_gradients(lambda a: (a**2).sum(), x, [dx], every_entry=True,
                             labels={"a": Labels(("batch", "unit"))})
    page = html_page([report], {"seed": "7"})
    assert 'title="1, 2: 3.3e-01">×' in page and page.count("wrong\" title") == 1
    assert "batch down" in page and "<dt>seed</dt><dd>7</dd>" in page and "numpy " in page
    assert "only one entry of those compared is wrong" in page


def test_the_page_is_escaped_and_names_no_directory():
    evil = "<script>alert(1)</script>"
    row = row_of((2,), [0, 1], [0.0, 1.0], ["ok", "wrong"], evil, (f"{evil}",))
    page = html_page([Report([row], [], f"/home/me/secret/mine.py:{evil}", notes=(
        "no complex step: f: a cast at /home/me/secret/mine.py:3",))], {"seed": evil})
    assert "<script" not in page and "secret" not in page and "mine.py:3" in page


def test_code_in_a_diagnosis_is_shown_as_code():
    page = html_page([Report([], notes=("right with `a < b` in place of `a`",))])
    assert "right with <code>a &lt; b</code> in place of <code>a</code>" in page


def test_a_page_of_many_checks_is_bounded_and_shows_wrong_ones_first():
    size = 40 * 40
    right = [Report([row_of((40, 40), range(size), np.full(size, 1e-16), name=f"W{k}")
                     for k in range(10)], [], f"check {n}") for n in range(150)]
    wrong = Report([row_of((2,), [0, 1], [0.0, 1.0], ["ok", "wrong"])], [], "the wrong one")
    page = html_page([*right, wrong])
    assert len(page.encode()) < LIMIT + 50_000 < 1e6
    assert page.index("<h2>the wrong one") < page.index("<h2>check 0<")
    assert "are in the table only" in page and page.count("<tr class=\"ok\"><td>check") > 0


def test_in_a_browser_nothing_overflows_nothing_is_loaded(browser, tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 60))
    report = check_gradients(lambda a: (a**2).sum(), x, [2.1 * x], every_entry=True,
                             method="complex", title="a/rather/long/path/of/my_own_layers.py:layer")
    path = tmp_path / "report.html"
    path.write_text(html_page([report, report]), encoding="utf-8")
    for size, scheme in (((1400, 900), "light"), ((390, 844), "light"), ((390, 844), "dark")):
        context = browser.new_context(viewport=dict(zip(("width", "height"), size, strict=True)),
                                      color_scheme=scheme)
        page, said = context.new_page(), []
        for event in ("console", "pageerror", "request"):
            page.on(event, partial(lambda list_, event_value: list_.append(event_value), said))
        page.goto(path.as_uri())
        assert [request.url for request in said] == [path.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        assert page.locator(".map i").count() == 2 * 30 * 30
        context.close()


def test_axe_finds_nothing_grave(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(html_page([wrong_report()]), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert findings(page) == []
    page.context.close()


def wrong_report():
    """Two tensors, one of them wrong."""
    x = np.random.default_rng(0).normal(size=(3, 40))
    return check_gradients(lambda a, b: (a**2).sum() + (b**2).sum(), [x, x[0]], [2.1 * x, 2 * x[0]])


def test_a_notebook_shows_the_verdict_then_rows_then_the_maps_of_what_is_wrong():
    cell = wrong_report()._repr_html_().partition("</style>")[2]
    assert cell.startswith('<p class="wrong"><span class="verdict wrong">WRONG</span>; 2 tensors')
    assert cell.index("<table>") < cell.index('class="map"') and cell.count('class="map"') == 1
    assert "<code>a</code> 3 × 40" in cell and 'class="key"' in cell


def test_a_notebook_shows_no_map_where_all_is_right():
    x = np.array([1.0, 2.0])
    report = check_gradients(lambda a: (a**2).sum(), x, [2 * x], every_entry=True)
    assert 'class="key"' not in report._repr_html_() and 'class="map"' not in report._repr_html_()


NOTEBOOK = ('<!doctype html><body data-jp-theme-light="{light}" style="margin: 0; '
            'color: rgb(1, 2, 3)"><h3>mine</h3><div style="overflow: auto">{cell}</div></body>')


def test_in_a_notebook_the_theme_is_the_notebooks_and_nothing_else_changes(browser):
    cell, style = wrong_report()._repr_html_(), "e => getComputedStyle(e).{}"
    for light, scheme, width in (("true", "dark", 1200), ("false", "light", 1200),
                                 ("", "dark", 1200), ("", "light", 390), ("false", "dark", 390)):
        page = browser.new_context(viewport={"width": width, "height": 800},
                                   color_scheme=scheme).new_page()
        page.set_content(NOTEBOOK.format(light=light, cell=""))
        before = page.eval_on_selector("h3", style.format("font"))
        page.set_content(NOTEBOOK.format(light=light, cell=cell))
        assert page.eval_on_selector("h3", style.format("font")) == before
        assert page.eval_on_selector("body", style.format("maxWidth")) == "none"
        assert page.eval_on_selector(".grads-report code", style.format("color")) == (
            "rgb(31, 31, 29)" if light == "true" or (not light and scheme == "light")
            else "rgb(233, 230, 223)")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.context.close()
