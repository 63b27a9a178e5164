"""API v1 over HTTP: checks, answers and logs requests; the control plane."""
