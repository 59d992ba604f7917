"""Benchmarks of speed against peers: results are compared first, then timed, interleaved."""
