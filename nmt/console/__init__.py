"""What `nmt`, `grads` and the benchmarks share at a terminal: arguments, progress, messages."""
