"""Speed, side by side with peers: equality first, then interleaved medians."""
