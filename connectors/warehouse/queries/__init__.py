"""Reads the snapshot, and the warehouse where both have the same tables."""
