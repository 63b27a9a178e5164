"""Scenarios with scans in tasks of one page each; the checks are the same."""

from pathlib import Path

import pytest

from flows.engine import dask_task
from models import incremental
from tests.model.recent import RUN
from tests.simulation.disk import Disk
from tests.simulation.scenario import generate_scenario
from tests.simulation.workers import WorkersSimulator


@pytest.mark.parametrize(
    ("seed", "recent"),
    [(3, 1), pytest.param(0, 0, marks=pytest.mark.long), pytest.param(4, 0, marks=pytest.mark.long)],
)
def test_the_snapshot_is_correct_under_any_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, recent: int
) -> None:
    monkeypatch.setattr(incremental, "KNOWN_RUN", RUN)
    monkeypatch.setattr(dask_task, "MOST_BYTES", 1)
    simulator = WorkersSimulator(generate_scenario(seed, 4), Disk(tmp_path))
    simulator.run()
    assert simulator.ended >= 3
    assert simulator.recent >= recent
    assert simulator.tasks > 20
