"""Merges landed pages into rows, set-based, in one transaction."""
