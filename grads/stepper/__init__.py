"""Stepping through the derivations: tracer, terminal walk, explorer page."""
