"""Output heads: they predict the target words from the decoder's output."""
