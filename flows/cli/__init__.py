"""The command line: what a person types, and what they read."""

from flows.cli.app import main

__all__ = ["main"]
