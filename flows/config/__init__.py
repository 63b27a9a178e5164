"""Settings and options: their sources, and why a value is rejected."""
