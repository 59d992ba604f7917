"""Draws a cell from inside as SVG: gates, products and sums, and the values that flow between them.

A drawing has nodes and flows. A flow is a variable's lines, from where the variable is computed to
where it is read. In the page each flow is a link to the line that computes the variable.
Coordinates are pixels; a drawing is as wide as a phone.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

from nmt.pages.page import BASE

WIDTH = 360
STYLE = Path(__file__).parent / "assets" / "inside.css"
LETTERS = {"h_tilde": "h\u0303", "s_tilde": "s\u0303", "h_hat": "h\u0302", "h_bar": "h\u0304",
           "alpha": "α"}
PREVIOUS = re.compile(r"(\w+)_prev$")
COLOUR = re.compile(r"var\((--[\w-]+)\)")
DECLARED = re.compile(r"(--[\w-]+): (#\w+);")


class Node(NamedTuple):
    """An operation. An elementwise operation is a circle, a function or a product is a box."""

    x: int
    y: int
    text: str
    width: int = 0  # of a box; 0 is a circle


class Flow(NamedTuple):
    """The lines of a variable, or of an unnamed part of the expression that computes it."""

    variable: str
    lines: tuple[str, ...]  # path data of each line
    label: tuple[int, int] | None  # where its name stands, its number below; None if unnamed


class Drawing(NamedTuple):
    """The drawing of a function. Screen readers read its `summary` instead."""

    summary: str
    height: int
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...]


# --- recurrent units ------------------------------------------------------------------------------

RNN = Drawing(
    "A recurrent unit: x and the state before are joined, multiplied by T, and pass tanh.", 116,
    (Node(58, 60, "[ ; ]", 26), Node(136, 60, "T · + b", 48), Node(226, 60, "tanh", 38)),
    (Flow("h_prev", ("M6 34 H26 V52 H44",), (6, 16)),
     Flow("x", ("M6 86 H26 V68 H44",), (6, 100)),
     Flow("z", ("M71 60 H111",), (84, 76)),
     Flow("a", ("M160 60 H206",), (174, 76)),
     Flow("h", ("M245 60 H352",), (290, 76))))

LSTM = Drawing(
    "An LSTM unit: gates i, f, o and the candidate from x and the state before; "
    "along the top the cell c, forgotten by f, added to by i and the candidate.", 232,
    (Node(110, 36, "×"), Node(212, 36, "+"), Node(212, 92, "×"), Node(308, 118, "×"),
     Node(308, 76, "tanh", 38), Node(110, 156, "σ", 30), Node(168, 156, "σ", 30),
     Node(252, 156, "tanh", 38), Node(308, 156, "σ", 30), Node(58, 194, "T · + b", 48)),
    (Flow("c_prev", ("M6 36 H99",), (6, 14)),
     Flow("h_prev", ("M6 188 H33",), (4, 168)),
     Flow("x", ("M6 202 H33",), (4, 216)),
     Flow("a", ("M83 194 H308 V167", "M110 194 V167", "M168 194 V167", "M252 194 V167"),
          (272, 208)),
     Flow("f", ("M110 145 V47",), (117, 92)),
     Flow("i", ("M168 145 V92 H201",), (175, 116)),
     Flow("h_hat", ("M252 145 V92 H223",), (259, 116)),
     Flow("o", ("M308 145 V129",), (328, 150)),
     Flow("c", ("M121 36 H201", "M212 81 V47"), None),
     Flow("c", ("M223 36 H352", "M308 36 V65"), (324, 14)),
     Flow("h", ("M308 87 V107",), None),
     Flow("h", ("M319 118 H352",), (328, 96))))


def gated(state: str = "h", context: bool = False, after: bool = False) -> Drawing:
    """Draw a gated unit.

    Arguments: state, its letter; context, whether it also reads c; after, whether the reset gate is
    applied after the product with U.
    """
    previous, candidate = f"{state}_prev", f"{state}_tilde"
    keeps, adds = ("z", "1 − z") if after else ("1 − z", "z")
    nodes = [Node(204, 36, "×"), Node(304, 36, "+"), Node(304, 92, "×"), Node(100, 92, "×"),
             Node(100, 140, "σ", 30), Node(204, 140, "σ", 30), Node(304, 140, "tanh", 38),
             *(Node(x, 196, "W · + b" if after and x > 204 else "W · + U ·", 58)
               for x in (100, 204, 304))]
    flows = [
        Flow("x", ("M6 222 H318 V207", "M114 222 V207", "M218 222 V207"), (30, 200)),
        Flow("a_r", ("M100 185 V151",), (107, 170)),
        Flow("a_z", ("M204 185 V151",), (211, 170)),
        Flow("a", ("M304 185 V151",), (311, 170)),
        Flow("r", ("M100 129 V103",), (107, 114)),
        Flow("z", ("M204 129 V47", "M204 92 H293"), (211, 112)),
        Flow(candidate, ("M304 129 V103",), (324, 106)),
        Flow(state, ("M215 36 H293", "M304 81 V47"), None),
        Flow(state, ("M315 36 H352",), (328, 14))]
    inside = "M111 92 H152 V156 H262 V196 H274"
    into_gates = ("M24 36 V234 H190 V207", "M86 234 V207")
    if after:
        nodes.append(Node(46, 92, "U ·", 30))
        flows += [Flow(previous, ("M6 36 H193", "M46 36 V81", *into_gates), (6, 14)),
                  Flow("m", ("M62 92 H89",), (62, 112)), Flow("a", (inside,), None)]
    else:
        flows += [Flow(previous, ("M6 36 H193", "M100 36 V81", *into_gates), (6, 14)),
                  Flow("m", (inside,), (116, 70))]
    if context:
        flows.append(Flow("c", ("M6 246 H304 V207", "M100 246 V207", "M204 246 V207"), (4, 260)))
    return Drawing(
        f"A gated unit: the reset gate r, the update gate z and a candidate; along the top the "
        f"state, kept by {keeps}, added to by {adds} times the candidate.",
        278 if context else 240, tuple(nodes), tuple(flows))


# --- attention ------------------------------------------------------------------------------------


def attention(query: str, states: str, weights: str, vector: bool) -> Drawing:
    """Draw the query, the scores, the weights and the context, with `vector` also the attentional
    vector."""
    nodes = [Node(96, 104, "score", 44), Node(186, 104, "softmax", 56), Node(262, 104, "×")]
    flows = [Flow(states, ("M6 164 H96 V115", "M96 164 H262 V115"), (6, 146)),
             Flow("e", ("M119 104 H157",), (128, 120)),
             Flow(weights, ("M215 104 H251",), (224, 120))]
    if vector:
        nodes += [Node(262, 52, "W_c [ ; ]", 60), Node(330, 52, "tanh", 38)]
        flows += [Flow(query, ("M6 36 H96 V93", "M96 36 H252 V41"), (6, 16)),
                  Flow("c", ("M262 93 V63",), (268, 80)), Flow("v", ("M293 52 H310",), (290, 20)),
                  Flow("h_tilde", ("M330 63 V126",), (318, 142))]
    else:
        flows += [Flow(query, ("M6 52 H96 V93",), (6, 34)),
                  Flow("c", ("M273 104 H352",), (320, 84))]
    return Drawing("Attention: each source state is scored by the query; the scores become "
                   "weights; the context is the weighted sum of the source states.",
                   182, tuple(nodes), tuple(flows))


HEAD = Drawing(
    "An attention head: queries and keys make scores, scores make weights, weights sum values.",
    190,
    (Node(74, 46, "W^Q", 36), Node(74, 124, "W^K", 36), Node(74, 166, "W^V", 36),
     Node(146, 86, "·"), Node(214, 86, "softmax", 56), Node(296, 86, "·")),
    (Flow("Y", ("M6 46 H55",), (6, 26)),
     Flow("X", ("M6 146 H44 V124 H55", "M44 146 V166 H55"), (6, 126)),
     Flow("Q", ("M93 46 H146 V75",), (104, 26)), Flow("K", ("M93 124 H146 V97",), (104, 140)),
     Flow("V", ("M93 166 H296 V97",), (190, 150)), Flow("E", ("M157 86 H185",), (156, 58)),
     Flow("A", ("M243 86 H285",), (246, 58)), Flow("H", ("M307 86 H352",), (318, 58))))

SUBLAYERS = {"attention": "self-att.", "source": "source", "feed_forward": "feed-f."}


def block(placed: str, sublayers: tuple[str, ...]) -> Drawing:
    """Draw a Transformer layer: the residual stream, with a branch for each sublayer.

    Arguments: placed, the position of the norm, pre or post; sublayers, names of SUBLAYERS.
    """
    nodes: list[Node] = []
    flows = [Flow("u[0]", (), (4, 182))]
    room, start = (WIDTH - 16) // len(sublayers), 6
    for k, name in enumerate(sublayers, start=1):
        left = 8 + room * (k - 1)
        tap, sum_x = left + 27, left + room - (46 if placed == "post" else 22)
        branch = (f"M{start} 156 H{sum_x - 11}", f"M{tap} 156 V{129 if placed == 'pre' else 63}")
        nodes += [Node(tap, 52, SUBLAYERS[name], 50), Node(sum_x, 156, "+")]
        stream = flows.pop()
        flows.append(stream._replace(lines=(*stream.lines, *branch)))
        flows.append(Flow(f"z.{k}", (f"M{tap + 26} 52 H{sum_x} V145",), (sum_x - 34, 20)))
        if placed == "pre":
            nodes.append(Node(tap, 118, "N", 28))
            flows += [Flow(f"n.{k}", (f"M{tap} 107 V63",), (tap + 7, 82)),
                      Flow(f"u[{k}]", (), (sum_x - 6, 182))]
        else:
            nodes.append(Node(sum_x + 32, 156, "N", 20))
            flows += [Flow(f"r.{k}", (f"M{sum_x + 11} 156 H{sum_x + 21}",), (sum_x - 16, 182)),
                      Flow(f"u[{k}]", (), (sum_x + 20, 182))]
        start = sum_x + (43 if placed == "post" else 11)
    flows[-1] = flows[-1]._replace(lines=(f"M{start} 156 H{WIDTH - 4}",))
    return Drawing("A Transformer's layer: the residual stream runs through; each sublayer reads "
                   "it and adds to it.", 204, tuple(nodes), tuple(flows))


DRAWINGS = {  # by function
    "rnn": RNN, "lstm": LSTM, "gru": gated(), "gru_context": gated("s", context=True),
    "gru_after": gated(after=True), "attend": attention("h", "h_bar", "a", True),
    "context": attention("q", "h", "alpha", False), "head_forward": HEAD,
    **{f"layer {placed} {len(names)}": block(placed, names) for placed in ("pre", "post")
       for names in (("attention", "feed_forward"), ("attention", "source", "feed_forward"))}}


# --- as SVG ---------------------------------------------------------------------------------------


def svg(drawing: Drawing) -> str:
    """The drawing as an SVG element for the page, which is styled by `inside.css`."""
    parts = [f'<svg class="cell-drawing" viewBox="0 0 {WIDTH} {drawing.height}" role="group" '
             f'aria-label="{escape(drawing.summary)}" xmlns="http://www.w3.org/2000/svg">',
             '<defs><marker id="into" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
             'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
             '<path d="M0 0.8 L7.5 4 L0 7.2 Z"/></marker></defs>',
             *map(_flow, drawing.flows), *map(_node, drawing.nodes), "</svg>"]
    return "".join(parts)


def standalone(drawing: Drawing) -> str:
    """The drawing as an SVG file in the page's light colours."""
    colours = dict(reversed(DECLARED.findall(BASE.read_text("utf-8"))))
    still = STYLE.read_text("utf-8").partition("/* states")[0]
    style = COLOUR.sub(lambda match: colours[match[1]], still)
    return svg(drawing).replace("<defs>", f"<style>{style}</style><defs>", 1)


def _flow(flow: Flow) -> str:
    """A variable's lines, the area where they can be clicked, its name, and room for its number."""
    lines = "".join(f'<path class="wide" d="{line}"/><path class="line" d="{line}"/>'
                    for line in flow.lines)
    name = ""
    if flow.label:
        x, y = flow.label
        name = (f'<text class="name" x="{x}" y="{y}">{_lettered(flow.variable)}</text>'
                f'<text class="number" x="{x}" y="{y + 12}"></text>')
    return f'<a class="flow" data-variable="{escape(flow.variable)}">{lines}{name}</a>'


def _node(node: Node) -> str:
    """A circle or a box with its text."""
    shape = f'<circle cx="{node.x}" cy="{node.y}" r="11"/>'
    if node.width:
        shape = (f'<rect x="{node.x - node.width / 2:g}" y="{node.y - 11}" width="{node.width}" '
                 'height="22" rx="4"/>')
    return f'<g class="operation">{shape}<text x="{node.x}" y="{node.y + 4}">' \
           f"{_raised(node.text)}</text></g>"


def _raised(text: str) -> str:
    """SVG text in which letters after ^ are superscripts and letters after _ are subscripts."""
    return re.sub(r"([\^_])(\w)", lambda match: f'<tspan dy="{-4 if match[1] == "^" else 3}" '
                  f'class="index">{match[2]}</tspan>', escape(text))


def _lettered(variable: str) -> str:
    """A variable's name with its index: h_prev is h at t - 1, and a_r has the index r."""
    name = variable.split(".")[0]
    before = PREVIOUS.match(name)
    letter, _, index = (before[1], "", "t−1") if before else name.partition("_")
    if name in LETTERS:
        letter, index = LETTERS[name], ""
    if "[" in name:
        letter, index = name.removesuffix("]").split("[")
    lowered = f'<tspan dy="3" class="index">{escape(index)}</tspan>' if index else ""
    return escape(letter) + lowered
