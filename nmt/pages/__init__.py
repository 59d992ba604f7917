"""Pages in a browser: how one is put together, and the page of a search."""
