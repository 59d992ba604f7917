"""Pruning by magnitude (Luong 2016, section 6.2): classes of weights, schemes, pruned runs."""
