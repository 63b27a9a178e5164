"""Faults on request: refusals, waits, and answers broken on the wire."""
