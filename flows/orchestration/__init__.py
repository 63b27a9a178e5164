"""Prefect around the engine: flow runs, schedules, automations, processes."""
