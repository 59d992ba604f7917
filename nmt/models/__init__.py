"""Encoder, decoder and output heads, and the models that are made of them."""
