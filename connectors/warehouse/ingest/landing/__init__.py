"""Makes pages durable, with their checkpoints, until they are merged."""
