"""Shows reports of gradient checks as a self-contained page, or a report as the output of a
notebook's cell. Neither has scripts or loads anything.

Each check has its verdict, its tensors with their relative errors, the diagnosis, and a heat map of
each tensor whose entries were differentiated one by one. Wrong checks come first. Checks that would
make the page larger than LIMIT are listed only in the table at its head.
"""

from __future__ import annotations

import html
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grads.check.heatmap import ACROSS, DOWN, heat_map, legend
from grads.check.result import BAD, SAID, VERDICTS, Result, Row, said_seconds
from nmt.console.messages import several
from nmt.console.package import PACKAGE
from nmt.pages.page import BASE

STYLE = Path(__file__).parent / "assets" / "report.css"
LIMIT = 900_000  # characters of a page
LISTED = 1500  # checks in the table at the head
CELLS, FEW = 24_000, 64  # cells of all maps together; least cells of a map
LIGHT_THEMES = '[data-jp-theme-light="true"], .vscode-light'  # of JupyterLab, of VS Code
DARK_THEMES = '[data-jp-theme-light="false"], .vscode-dark'
CELL = "color: var(--ink); background: var(--paper); padding: 6px 12px;"  # of a notebook
FIRST = ("wrong", "undecided", "unfinished", "ok")
EXPLAINED = (
    "Complex step is the derivative Im f(x + i h) / h with h = 1e-30 (Squire and Trapp, 1998): "
    "exact to rounding. Ridders' differences are central differences extrapolated to h = 0 "
    "(Ridders, 1982), with an estimate of their error. Directions are random ones over the whole "
    "tensor: a wrong entry shows in nearly every one.",
    "The relative error is |analytic - numeric| divided by the larger of both, or by 1e-4 of the "
    "tensor's largest gradient where both are smaller. A gradient is right if the difference is "
    "what rounding explains: in float64 8192 eps of the entry and 512 eps of the terms that were "
    "summed and of the largest entry, and ten times the estimated error of the derivative. Where "
    "two methods disagree, nothing is decided.",
)


def html_page(reports: Sequence[Result], facts: Mapping[str, str] | None = None) -> str:
    """The page of some reports.

    Arguments: facts on how the reports were made (seed, command), in the order of the page. Date
    and versions are added.
    """
    order = sorted(range(len(reports)), key=lambda k: FIRST.index(reports[k].verdict))
    style = "".join(path.read_text(encoding="utf-8") for path in (BASE, STYLE))
    cells = _cells(reports)
    sections, size = [], len(style) + 400 * min(len(reports), LISTED)
    for k in order:
        section = _section(reports[k], k, cells)
        if size + len(section) > LIMIT:
            break
        sections.append(section)
        size += len(section)
    shown = set(order[:len(sections)])
    left = f"<p>{len(order) - len(shown)} more checks are in the table only: the page would be " \
           "too large.</p>" if len(shown) < len(order) else ""
    maps = legend() if any('class="map"' in section for section in sections) else ""
    table = _table_of_checks(reports, order, shown) if len(reports) > 1 else ""
    methods = "".join(f"<p>{html.escape(text)}</p>" for text in EXPLAINED)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'\">"
        f"<title>Gradient check: {html.escape(_counts(reports))}</title><style>{style}</style>"
        f'</head><body><header class="head"><h1>Gradient check</h1>'
        f"<p>{html.escape(_counts(reports))}</p></header>{_facts(facts or {})}{table}{maps}"
        f"<details><summary>How this was checked</summary>{methods}</details>"
        f"<main>{''.join(sections)}</main>{left}</body></html>\n"
    )


def html_cell(report: Result) -> str:
    """The report as a notebook shows it: its section of the page, with maps of wrong tensors only.

    The page's style sheet is nested below a class, so that it changes nothing else in the notebook.
    The notebook's theme, if it is known, selects the light or the dark palette.
    """
    style = "".join(path.read_text(encoding="utf-8") for path in (BASE, STYLE))
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    themes = "".join(f":is({theme}) & {{ {palette} }}" for theme, palette in (
        (LIGHT_THEMES, light), (DARK_THEMES, dark)))
    bad = replace(report, rows=[row if row.status in BAD else replace(row, entries=None)
                                for row in report.rows])
    maps = legend() if any(row.entries is not None for row in bad.rows) else ""
    return (f'<div class="grads-report"><style>.grads-report {{ {CELL} '
            f"{style.replace(':root', '&')}{themes} }}</style>"
            f"{_said(bad, _cells([bad]))}{maps}</div>")


def _cells(reports: Sequence[Result]) -> int:
    """The number of cells that each map may have, so that all maps together are within the limit.
    """
    maps = sum(row.entries is not None for report in reports for row in report.rows)
    return max(FEW, min(ACROSS * DOWN, CELLS // max(1, maps)))


def _counts(reports: Sequence[Result]) -> str:
    """The number of checks, in total and by verdict."""
    counts = {word: sum(report.verdict == word for report in reports) for word in FIRST}
    said = {"ok": "right", "unfinished": "not finished"}
    parts = [f"{count} {said.get(word, word)}" for word, count in counts.items() if count]
    return f"{several(len(reports), 'check')}: {', '.join(parts) or 'none'}"


def _facts(facts: Mapping[str, str]) -> str:
    """How the checks were made, with the date and the versions."""
    known = {**facts, "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
             "versions": _versions()}
    lines = "".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>"
                    for key, value in known.items())
    return f'<dl class="facts">{lines}</dl>'


def _versions() -> str:
    """The versions of Python, NumPy, SciPy and this package, as far as they are installed."""
    versions = [f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", PACKAGE):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*versions, f"{platform.system()} {platform.machine()}"])


def _table_of_checks(reports: Sequence[Result], order: Sequence[int], shown: set[int]) -> str:
    """A line for each check, wrong checks first, with links to the sections."""
    lines = []
    for k in order[:LISTED]:
        report = reports[k]
        title = html.escape(_title(report))
        worst = max((row.error for row in report.rows), default=0.0)
        lines.append(
            f'<tr class="{report.verdict}"><td>'
            + (f'<a href="#check-{k}">{title}</a>' if k in shown else title)
            + f'</td><td class="verdict">{SAID[report.verdict]}</td>'
            f'<td class="number">{worst:.1e}</td>'
            f'<td class="number">{said_seconds(report.seconds)}</td></tr>')
    left_out = len(order) - len(lines)
    said = f"<p>and {left_out} more</p>" if left_out else ""
    return ('<div class="wide"><table><thead><tr><th>check</th><th>verdict</th>'
            '<th class="number">largest relative error</th><th class="number">time</th></tr>'
            f"</thead><tbody>{''.join(lines)}</tbody></table></div>{said}")


def _section(report: Result, number: int, cells: int) -> str:
    """The section of a check."""
    return (f'<section id="check-{number}"><h2>{html.escape(_title(report))}</h2>'
            f"{_said(report, cells)}</section>")


def _said(report: Result, cells: int) -> str:
    """The verdict, the remarks, the tensors and the drawings of a check."""
    directory = report.title.partition(".py:")[0].rpartition("/")[0]
    remarks = "".join(
        f"<li>{_code(html.escape(text.replace(f'{directory}/', '') if directory else text))}</li>"
        for text in report.remarks())
    maps = "".join(heat_map(row, cells) for row in report.rows)
    summary = html.escape(report.summary().removeprefix(f"{report.title}: {SAID[report.verdict]}"))
    return (
        f'<p class="{report.verdict}"><span class="verdict {report.verdict}">'
        f"{SAID[report.verdict]}</span>{summary}</p>"
        + (f'<ul class="remarks">{remarks}</ul>' if remarks else "")
        + (_tensors(report) if report.rows else "")
        + (f"<h3>Relative error</h3><div class=\"maps\">{maps}</div>" if maps else ""))


def _code(text: str) -> str:
    """A text with what is between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", text)


def _title(report: Result) -> str:
    """FILE.py:NAME without the user's directories."""
    head, _, function_name = report.title.partition(".py:")
    return f"{head.rpartition('/')[2]}.py:{function_name}" if function_name else report.title


def _tensors(report: Result) -> str:
    """The table of a report's tensors."""
    headings, body = report.table()
    names = [headings[0], "verdict", *headings[1:-1]]
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = "".join(_tensor(row, cells) for row, cells in zip(report.rows, body, strict=True))
    return (f'<div class="wide"><table><thead><tr>{heads}</tr></thead>'
            f"<tbody>{lines}</tbody></table></div>")


def _tensor(row: Row, cells: Sequence[str]) -> str:
    """A tensor's line."""
    name, *numbers = (html.escape(cell) for cell in cells[:-1])
    inside = "".join(f"<td>{number}</td>" for number in numbers)
    return (f'<tr class="{row.status}"><td><code>{name}</code></td>'
            f'<td class="verdict">{html.escape(VERDICTS[row.status])}</td>{inside}</tr>')
