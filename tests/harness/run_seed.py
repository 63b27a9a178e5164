"""Runs one seed in a worker process, which cannot import the module of the program itself."""

from typing import Any

from flows.cli.__main__ import prepare_process


def run_seed(seed: int, days: int, left_out: tuple[str, ...] = (), *, shrinks: bool = True) -> tuple[Any, str]:
    """Simulate a seed without some parts; return the result, and how to repeat a failure with as little as possible."""
    # DuckDB's client would import pandas, which takes a second in each process (docs/decisions.md).
    prepare_process()
    from tests.harness.scenario import generate  # noqa: PLC0415
    from tests.harness.shrink import command, shrink, without  # noqa: PLC0415
    from tests.harness.simulation import simulate  # noqa: PLC0415

    scenario = without(generate(seed, days), left_out)
    result = simulate(scenario)
    if result.violation is None:
        return result, ""
    if shrinks:
        left_out = (*left_out, *shrink(scenario, lambda smaller: simulate(smaller).violation is not None))
        result = simulate(without(scenario, left_out))
    return result, f"{result.scenario}\n{result.violation}\nRepeat: {command(scenario, days, left_out)}\n\n"
