"""Recurrent units, and what they need to be a language model."""
