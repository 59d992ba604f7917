"""The evaluation of trained translators: scores, alignments, learning curves, pictures."""
