"""The theses' analyses: redundancy, word similarity, maps of words, logits, scales of norms."""
