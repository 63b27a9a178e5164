"""Runs one seed in a worker process."""

import sys

from flows.cli.__main__ import prepare_process


def run_seed(seed: int, days: int) -> tuple[int, int, int, str | None]:
    """Simulate a seed; return its days, the runs that ended, the recent scans, and a failing scenario or None."""
    # DuckDB's client would import pandas, which takes a second in each process (docs/decisions/duckdb.md).
    prepare_process()
    from tests.simulation.scenario import generate_scenario  # noqa: PLC0415
    from tests.simulation.shrink import shrink  # noqa: PLC0415
    from tests.simulation.simulator import simulate  # noqa: PLC0415

    result = simulate(generate_scenario(seed, days))
    if result.violation is None:
        return result.days, result.ended, result.recent, None
    sys.stderr.write(f"seed {seed} failed: {result.violation.splitlines()[0]} ... shrinking\n")
    shortest = shrink(result.scenario, lambda scenario: simulate(scenario).violation is not None)
    violation = simulate(shortest).violation
    return (
        result.days,
        result.ended,
        result.recent,
        f"{shortest.message()}\n{violation}\n(before shrinking: {result.violation})",
    )
