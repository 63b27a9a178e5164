"""Runs, outcomes, checkpoints and the selection of backfills."""
