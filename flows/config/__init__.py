"""Settings and options: where they come from, and why one is refused."""
