"""What `grads.check` stands on: claims, numerical differentiation, verdicts."""
