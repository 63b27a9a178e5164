from tests.operator import bare, run_cli

__all__ = ["bare", "run_cli"]
