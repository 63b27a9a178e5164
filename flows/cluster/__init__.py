"""Batches of accounts scanned by workers on several machines, through a shared store."""
