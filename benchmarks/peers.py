"""One LSTM layer: ours against other implementations.

PyTorch's nn.LSTM and an eager loop over nn.LSTMCell, thinc's LSTM, and the plain NumPy LSTM that
the course CS231n teaches. Same weights, same float32 inputs, interleaved in one process; a pass of
thinc's that is wrong is named, with its error, and not timed.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from benchmarks import peer_cs231n, peer_thinc
from benchmarks.implementations import find_cupy, find_torch
from benchmarks.kernel_list import lstm_layers
from benchmarks.options import make_parser, parse
from benchmarks.paired import TITLES, Row, cupy_line, print_rows, run_kernel
from benchmarks.pictures import COLOURS, number, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment, installed


def main(arguments: list[str]) -> None:
    """Compare, print, write `results/peers-<kernels>.json` and draw the picture beside it."""
    parser = make_parser("peers", __doc__, 9.0)
    options = parse(parser, arguments)
    absent, others = {}, {"CS231n NumPy": peer_cs231n.passes}
    if find_spec("thinc") is None:
        absent["thinc"] = "not installed"
    else:
        others["thinc"] = peer_thinc.passes
    if find_torch() is None:
        absent |= {"nn.LSTM": "not installed", "nn.LSTMCell loop": "not installed"}
    print(describe(environment()))
    print(f"thinc {installed('thinc') or 'not installed'}; {cupy_line()}")
    rows: list[Row] = []
    for make in lstm_layers(options.quick):
        found = run_kernel(replace(make(), others=others), options.seconds, options.quick,
                           doubted={"thinc"}, absent=absent)
        print_rows(found)
        rows += found
    gpu = find_cupy()[0] is not None
    stated = vars(options) | {"thinc": installed("thinc")}
    publish_rows("peers", stated, rows, picture, directory=options.output, gpu=gpu)


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """A panel for each size: bars of milliseconds, forward inside forward and backward."""
    rows = record["rows"]
    sizes = list(dict.fromkeys(str(row["sizes"]) for row in rows))
    names = [name for name in dict.fromkeys(row["implementation"] for row in rows)
             if any(row["median"] for row in rows if row["implementation"] == name)]
    figure, panels = plt.subplots(
        1, len(sizes), figsize=(1.5 + 3.3 * len(sizes), 2.1 + 0.42 * len(names)), sharey=True,
        squeeze=False, layout="constrained")
    for axes, size in zip(panels[0], sizes, strict=True):
        own = {(row["implementation"], row["pass"]): row for row in rows
               if str(row["sizes"]) == size}
        for shift, pass_, colour in ((-0.2, "forward", COLOURS[5]), (0.2, "both", COLOURS[0])):
            for place, name in enumerate(names):
                bar(axes, own.get((name, pass_)), place + shift, colour)
            axes.barh([0], [0], color=colour, label=TITLES[pass_])
        longest = max(row["median"] or 0 for row in own.values())
        axes.set(title=", ".join(f"{k}={n}" for k, n in next(iter(own.values()))["sizes"].items()),
                 xlabel="milliseconds", xlim=(0, 1.25e3 * longest))
        axes.set_yticks(range(len(names)), names)
    panels[0][0].invert_yaxis()
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower right", ncols=2,
                  frameon=False)
    titled(figure, "One LSTM layer: this project's (NumPy) beside others", record["environment"],
           "a panel for each size (T steps, batch B, width H); shorter bars are better. What "
           "computes a wrong gradient is not timed.")
    return figure


def bar(axes: Any, row: Row | None, place: float, colour: str) -> None:
    """One bar with its number, or a word where there is none."""
    if row is None or row["median"] is None:
        note = "" if row is None else row["note"].split(":")[0]
        axes.text(0, place, f" {note}", va="center", fontsize=8, color="#666666")
        return
    ms = 1e3 * row["median"]
    axes.barh(place, ms, 0.38, color=colour)
    axes.text(ms, place, f" {number(ms)}", va="center", fontsize=8)
