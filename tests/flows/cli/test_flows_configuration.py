"""`gramhouse init` and `gramhouse config`."""

import tomllib
from pathlib import Path

import pytest

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
