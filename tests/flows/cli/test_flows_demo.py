from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.cli.commands.demo import first_day
from flows.config.errors import SettingsError
from tests.operator import Cli

NOW = datetime(2026, 3, 31, 9, tzinfo=UTC)


def test_the_folder_of_another_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").touch()
    with pytest.raises(SettingsError, match=r"another warehouse\. Fix: choose another"):
        first_day(tmp_path, days=28, now=NOW)


def test_a_demo_syncs_each_day_once_and_today_again(run_cli: Cli) -> None:
    done = run_cli("demo", "--days", "2")
    assert (done.code, "2 days of a sandbox" in done.stdout, "the most likes" in done.stdout) == (0, True, True)
    again = run_cli("demo")
    assert (again.code, "1 day of a sandbox" in again.stdout, "new" in again.stdout) == (0, True, False)
