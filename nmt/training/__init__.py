"""Training: optimizers, learning-rate schedules, checkpoints and the loop that joins them."""
