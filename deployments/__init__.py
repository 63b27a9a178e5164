"""Deployment files. `flows.orchestration.serving` reads prefect.yaml and automations.yaml."""
