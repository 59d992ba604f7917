"""Verification of this repository's own backward passes."""
