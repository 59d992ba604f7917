"""Mutants that compute the same, or what no user can tell apart: the reason each."""

from __future__ import annotations

EQUIVALENTS: dict[str, str] = {}
