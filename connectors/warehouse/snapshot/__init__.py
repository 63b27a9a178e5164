"""The snapshot, which analysts use: publishes, reads, queries and exports it."""
