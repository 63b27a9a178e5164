"""`gramhouse init` and `gramhouse config`."""

import json
import tomllib
from pathlib import Path

import pytest

from flows.config.settings import Settings, load
from tests.operator import Cli

SECRET = "canary-51e2"


def test_init_explains_every_setting_and_changes_none(run_cli: Cli) -> None:
    before = load()
    code, out, _ = run_cli("init")
    file = Path("gramhouse.toml")
    assert (code, "gramhouse.toml" in out, file.stat().st_mode & 0o777) == (0, True, 0o600)
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    assert load() == before
    for name, field in Settings.model_fields.items():
        assert f"# [{name}]" in text or f"# {name} =" in text
        assert " ".join((field.description or "").split()) in " ".join(text.replace("\n# ", " ").split())
    file.write_text("page_size = 7\n", encoding="utf-8")
    code, _, err = run_cli("init")
    assert (code, "exists already. Fix: " in err, file.read_text(encoding="utf-8")) == (2, True, "page_size = 7\n")


def test_every_line_of_init_with_a_default_can_be_set(run_cli: Cli) -> None:
    run_cli("init")
    file, before = Path("gramhouse.toml"), load()
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(line[2:] for line in lines if " = " in line and not line.endswith("=")), encoding="utf-8")
    assert load() == before


def test_config_shows_values_and_origins_but_no_key(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gramhouse.toml").write_text("# page_size = 1\npage_size = 20\nconcurrency = 3\n", encoding="utf-8")
    monkeypatch.setenv("GRAMHOUSE_API_KEY", SECRET)
    monkeypatch.setenv("gramhouse_concurrency", "7")
    code, out, err = run_cli("config")
    assert (code, SECRET in out + err) == (0, False)
    _, document, _ = run_cli("config", "--json")
    found = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(document)["settings"]}
    assert found.keys() == Settings.model_fields.keys()
    assert found["page_size"] == (20, "gramhouse.toml, line 2: page_size")
    assert found["concurrency"] == (7, "gramhouse_concurrency")
    assert found["max_wait"] == (3600, "default")
    assert found["api_key"] == ("**********", "GRAMHOUSE_API_KEY")
    for value, origin in found.values():
        assert str(value or "") in out
        assert origin == "default" or origin in out
