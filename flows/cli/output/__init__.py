"""What the commands print: terminal, pipes, JSON, metrics."""
