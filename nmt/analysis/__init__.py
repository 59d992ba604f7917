"""The theses' analyses: redundancy, word similarity, maps of words, logits, scales of norms, scores
by length, brackets of parses.
"""
