"""Turns the bytes of pages into typed columns: split, decode, read."""
