"""The analyses of the theses: redundancy, similarity and maps of words, logits, scales of norms."""
