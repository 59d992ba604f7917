"""How a function is traced: its source rewritten, its assignments recorded, replayed, verified."""
