"""The code for Prefect: flow runs, schedules, automations, processes."""
