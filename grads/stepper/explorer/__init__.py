"""The derivations in the browser: `build` makes the data of a page, `explore` the file."""

from grads.stepper.explorer.data import build, explore

__all__ = ["build", "explore"]
