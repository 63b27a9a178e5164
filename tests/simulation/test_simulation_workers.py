"""Stories with batches on workers, whose store is another party that fails; referee and model are the same."""

from pathlib import Path

import pytest

from models import incremental
from tests.model.recent import RUN
from tests.simulation.disk import Disk
from tests.simulation.story import tell
from tests.simulation.workers import WorkersPlayer


@pytest.mark.parametrize(("seed", "recent"), [(0, 0), (3, 1), (4, 0)])
def test_whatever_befalls_runs_and_store_the_snapshot_is_what_was_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, recent: int
) -> None:
    monkeypatch.setattr(incremental, "KNOWN_RUN", RUN)
    monkeypatch.setattr("flows.cluster.worker._PAGES", 1)
    player = WorkersPlayer(tell(seed, 4), Disk(tmp_path))
    player.play()
    assert player.ended >= 3
    assert player.recent >= recent
    assert player.failed
    assert any(key.endswith("/end") for key in player.objects)
