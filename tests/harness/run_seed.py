"""Runs one seed in a worker process."""

from typing import Any

from flows.cli.__main__ import prepare_process


def run_seed(seed: int, days: int) -> Any:  # noqa: ANN401 - the result's class is imported late
    """Simulate a seed; return the result."""
    # DuckDB's client would import pandas, which takes a second in each process (docs/decisions/duckdb.md).
    prepare_process()
    from tests.harness.scenario import generate  # noqa: PLC0415
    from tests.harness.simulation import simulate  # noqa: PLC0415

    return simulate(generate(seed, days))
