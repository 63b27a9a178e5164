"""Scripted faults: error responses, delays, and broken responses and connections."""
