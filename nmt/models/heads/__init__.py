"""Output heads: from what a decoder made to the prediction of its words."""
