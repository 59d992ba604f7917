"""Encoder, decoder and output layer, and the translator put together from them."""
