"""API v1 over HTTP: requests checked, answered, recorded and controlled."""
