"""Pages made durable with their checkpoints, until they are merged."""
