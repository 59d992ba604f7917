"""Draws the error of numerical derivatives of an entry against the step size."""

from __future__ import annotations

import html

import numpy as np

from grads.check.result import StepErrors

STEPS = 10.0 ** -np.arange(16)
FLOOR, TOP = 1e-18, 10.0  # limits of the axis of errors; an error of 0 is drawn at the lower one
WIDTH, HEIGHT = 380, 230
LEFT, RIGHT, UPPER, LOWER = 52, WIDTH - 12, 12, HEIGHT - 38  # of the axes
SAID = {"forward": "forward difference", "central": "central difference",
        "complex": "complex step"}


def chart(name: str, errors: StepErrors) -> str:
    """The drawing, both axes logarithmic, as a <figure>."""
    kinds = [kind for kind in SAID if np.isfinite(getattr(errors, kind)).any()]
    where = f"{name} at {errors.at}" if errors.at else name
    label = html.escape(f"Error against step size for {where}", quote=True)
    key = "".join(f'<span class="{kind}">{SAID[kind]}</span>' for kind in kinds)
    lines = "".join(f'<path class="series {kind}" d="{_path(errors, kind)}"/>' for kind in kinds)
    ticks = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{_y(e):.1f}" y2="{_y(e):.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{_y(e) + 4:.1f}" text-anchor="end">{_ten(e)}</text>'
        for e in (1.0, 1e-4, 1e-8, 1e-12, 1e-16))
    ticks += "".join(f'<text class="tick" x="{_x(h):.1f}" y="{LOWER + 16}" text-anchor="middle">'
                     f"{_ten(h)}</text>" for h in 10.0 ** -np.arange(0, 16, 3))
    return (f'<figure class="steps"><figcaption><code>{html.escape(where)}</code></figcaption>'
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
            f'{ticks}<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{LOWER}" y2="{LOWER}"/>'
            f'<text class="axis-title" x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 4}" '
            f'text-anchor="middle">step size h</text>{lines}</svg>'
            f'<p class="axes">{key}</p></figure>')


def _x(h: float) -> float:
    return LEFT + (RIGHT - LEFT) * (np.log10(h) - np.log10(STEPS[-1])) / -np.log10(STEPS[-1])


def _y(error: float) -> float:
    held = np.log10(min(max(error, FLOOR), TOP))
    return LOWER - (LOWER - UPPER) * float((held - np.log10(FLOOR)) / np.log10(TOP / FLOOR))


def _ten(value: float) -> str:
    power = round(float(np.log10(value)))
    return "1" if not power else f'10<tspan dy="-4" font-size="8">−{-power}</tspan>'


def _path(errors: StepErrors, kind: str) -> str:
    """The line through the errors, with gaps where they are not finite."""
    parts, pen = [], "M"
    for h, error in zip(errors.steps, getattr(errors, kind), strict=True):
        if np.isfinite(error):
            parts.append(f"{pen}{_x(h):.1f} {_y(float(error)):.1f}")
        pen = "L" if np.isfinite(error) else "M"
    return "".join(parts)
