"""The tracer: it rewrites a function's source, records its assignments, replays and verifies
them."""
