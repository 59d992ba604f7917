"""Scores, alignment, context and the attentional vector (Luong, 2016, section 4.2)."""
