"""A web server for a trained translator: `nmt serve`."""
