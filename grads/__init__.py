"""Verifies every kernel from outside: the papers' algorithms written out, and gradient checks."""
