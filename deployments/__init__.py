"""Deployment files. The package contains automations.yaml, which `flows.orchestration.automations` applies."""
