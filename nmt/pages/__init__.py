"""HTML pages: assembling one, and the page of a search."""
