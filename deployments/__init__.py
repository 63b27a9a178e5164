"""What a Prefect server is given: automations as data."""
