"""Evaluating trained translators: scores by length, alignments, learning curves, pictures."""
