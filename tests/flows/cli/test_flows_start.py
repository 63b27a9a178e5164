"""`gramhouse init`, `gramhouse config` and `gramhouse demo`."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.cli.commands.demo import first_day
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from tests.operator import Cli

SECRET = "canary-51e2"


def test_init_explains_every_setting_and_changes_none(run_cli: Cli) -> None:
    before, file = load(), Path("gramhouse.toml")
    done = run_cli("init")
    assert (done.code, "gramhouse.toml" in done.stdout, file.stat().st_mode & 0o777) == (0, True, 0o600)
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    assert load() == before
    for name, field in Settings.model_fields.items():
        assert f"# [{name}]" in text or f"# {name} =" in text
        assert str(field.description) in " ".join(text.replace("\n# ", " ").split())
    # Every line with a default can be set.
    lines = [line[2:] for line in text.splitlines() if " = " in line and not line.endswith("=")]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert load() == before
    done = run_cli("init")
    assert (done.code, "exists already. Fix: " in done.stderr, file.read_text("utf-8")) == (2, True, "\n".join(lines))


def test_config_shows_values_and_origins_but_no_key(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gramhouse.toml").write_text("# page_size = 1\npage_size = 20\nconcurrency = 3\n", encoding="utf-8")
    monkeypatch.setenv("GRAMHOUSE_API_KEY", SECRET)
    monkeypatch.setenv("gramhouse_concurrency", "7")
    done = run_cli("config")
    assert (done.code, SECRET in done.text) == (0, False)
    found = {row["setting"]: (row["value"], row["origin"]) for row in run_cli("config", "--json").json()["settings"]}
    assert found.keys() == Settings.model_fields.keys()
    assert found["page_size"] == (20, "gramhouse.toml: page_size")
    assert found["concurrency"] == (7, "gramhouse_concurrency")
    assert found["max_wait"] == (3600, "default")
    assert found["api_key"] == ("**********", "GRAMHOUSE_API_KEY")
    for value, origin in found.values():
        assert str(value or "") in done.stdout
        assert origin == "default" or origin in done.stdout


def test_the_folder_of_another_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").touch()
    with pytest.raises(SettingsError, match=r"another warehouse\. Fix: choose another"):
        first_day(tmp_path, days=28, now=datetime(2026, 3, 31, 9, tzinfo=UTC))


def test_a_demo_syncs_each_day_once_and_today_again(run_cli: Cli) -> None:
    done = run_cli("demo", "--days", "2")
    assert (done.code, "2 days of a sandbox" in done.stdout, "the most likes" in done.stdout) == (0, True, True)
    again = run_cli("demo")
    assert (again.code, "1 day of a sandbox" in again.stdout, "new" in again.stdout) == (0, True, False)
