"""Speed beside peers: equality first, then interleaved medians."""
