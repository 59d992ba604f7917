"""Recurrent cells, stacks of layers, embeddings and the prediction layer."""
