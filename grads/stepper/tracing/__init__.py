"""Tracing a function: its source is rewritten, its assignments are recorded, replayed and
verified."""
