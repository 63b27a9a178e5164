"""Land, merge, die, resume and publish in any order: the warehouse and the snapshot are what landed."""

from collections.abc import Iterator

import pytest
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from connectors.warehouse.storage.connection import connect
from models import incremental
from tests.model.recent import RUN
from tests.stateful.injected_bugs import PLANTED
from tests.stateful.machine import Warehouses
from tests.stateful.profiles import LOOKING, finding


@pytest.fixture(scope="module", autouse=True)
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A new warehouse to be copied: to make one takes longer than a story's steps."""
    path = tmp_path_factory.mktemp("template") / "rig.duckdb"
    with connect(path):
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warehouses, "template", path, raising=False)
        patch.setattr(incremental, "KNOWN_RUN", RUN)
        yield


def test_in_any_order_and_whatever_breaks() -> None:
    run_state_machine_as_test(Warehouses, settings=LOOKING)


@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    # Where two threads write, the nth statement is not the same one twice: found all the same.
    with pytest.raises((AssertionError, Flaky)):
        run_state_machine_as_test(Warehouses, settings=finding(150))
