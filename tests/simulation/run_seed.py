"""Runs one seed in a worker process."""

from flows.cli.__main__ import prepare_process


def run_seed(seed: int, days: int) -> tuple[int, int, int, str | None]:
    """Simulate a seed; return its days, the runs that ended, the recent scans, and a failing scenario or None."""
    # DuckDB's client would import pandas, which takes a second in each process (docs/decisions/duckdb.md).
    prepare_process()
    from tests.simulation.scenario import generate_scenario  # noqa: PLC0415
    from tests.simulation.simulator import simulate  # noqa: PLC0415

    result = simulate(generate_scenario(seed, days))
    if result.violation is None:
        return result.days, result.ended, result.recent, None
    # The first days of a seed are the same whatever their number.
    tried = (simulate(generate_scenario(seed, number)) for number in range(days + 1))
    shortest = next(one for one in tried if one.violation is not None)
    return result.days, result.ended, result.recent, f"{shortest.scenario.message()}\n{shortest.violation}"
