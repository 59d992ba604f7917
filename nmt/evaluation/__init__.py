"""The evaluation of trained translators: scores by length, alignments, learning curves, pictures.
"""
