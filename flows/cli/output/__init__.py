"""The output of commands: terminal, pipes, JSON, metrics."""
