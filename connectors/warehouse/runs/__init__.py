"""Runs, outcomes, checkpoints and what a backfill selects."""
