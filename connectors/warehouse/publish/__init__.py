"""Publishes the snapshot: the warehouse's file as analysts read it."""
