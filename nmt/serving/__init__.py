"""A trained translator in a browser: `nmt serve`."""
