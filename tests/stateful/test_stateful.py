"""Land, merge, kill, resume and publish in any order: the warehouse and the snapshot match the model.

The defects that show whether such tests find anything are planted in tests/simulation.
"""

from collections.abc import Iterator

import pytest
from hypothesis.stateful import run_state_machine_as_test

from connectors.warehouse.storage.connection import connect
from models import incremental
from tests.model.recent import RUN
from tests.stateful.machine import Warehouses
from tests.stateful.profiles import SETTINGS


@pytest.fixture(scope="module", autouse=True)
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty warehouse to copy, because creating one is slow."""
    path = tmp_path_factory.mktemp("template") / "rig.duckdb"
    with connect(path):
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warehouses, "template", path, raising=False)
        patch.setattr(incremental, "KNOWN_RUN", RUN)
        yield


def test_any_order_of_steps_and_faults() -> None:
    run_state_machine_as_test(Warehouses, settings=SETTINGS)
