"""`gramhouse doctor` detects a key that cannot list media, and honours every Retry-After."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.requests import DEMO_KEY, NO_SCOPE_KEY
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from connectors.state.database import open_state, open_state_read_only, state_path
from connectors.state.inbox import land, read_cooldowns
from connectors.warehouse.storage.holder import hold
from models.checkpoint import ScopeCooldown
from tests.api.faults import Action, Rule, change_page
from tests.api.server import Api
from tests.operator import Cli


@dataclass
class Doctor:
    """What `gramhouse doctor` finds, by check, while a sandbox serves the API."""

    run_cli: Cli
    monkeypatch: pytest.MonkeyPatch

    @contextmanager
    def of(self, *rules: Rule, key: str = DEMO_KEY, **settings: Any) -> Iterator[str]:  # noqa: ANN401
        """Serve the API at the address of the settings; yield it."""
        chosen = SandboxSettings(**({"accounts": 4, "posts": 5, "seed": 11} | settings))
        with in_thread(Api(chosen, rules) if rules else Sandbox(chosen)) as url:
            self.monkeypatch.setenv("GRAMHOUSE_BASE_URL", url)
            self.monkeypatch.setenv("GRAMHOUSE_API_KEY", key)
            yield url

    def find(self, code: int) -> dict[str, tuple[str, str]]:
        """Return the last result of each check."""
        exit_code, out, _ = self.run_cli("doctor", "--json")
        found = {finding["check"]: (finding["verdict"], finding["message"]) for finding in json.loads(out)["findings"]}
        assert exit_code == code, found
        return found


@pytest.fixture
def doctor(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    return Doctor(run_cli, monkeypatch)


def test_a_key_that_cannot_list_media_is_found_before_the_nightly_run(doctor: Doctor) -> None:
    # A malformed account is not counted as reached.
    with doctor.of(Rule(change_page(lambda page: {**page, "items": [*page["items"], {}]})), key=NO_SCOPE_KEY):
        assert "the key reaches 4 accounts" in doctor.run_cli("doctor").text
        verdict, message = doctor.find(1)["API"]
    assert (verdict, "api_scope_denied" in message) == ("bad", True)
    # One account that is gone is no problem of the key.
    with doctor.of(Rule(Action("error", code="api_automation_media_not_found"), "media")):
        assert doctor.find(0)["API"][0] == "note"


@pytest.mark.parametrize(("seconds", "text"), [(3600, "1 h"), (10**13, "36525 d")])
def test_a_rate_limit_is_kept_for_the_next_command_if_the_warehouse_is_that_of_the_service(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, seconds: int, text: str
) -> None:
    limited = Action("error", code="rate_limited", retry_after=seconds)
    with doctor.of(Rule(limited, "accounts", nth=2)) as right:
        assert doctor.run_cli("sync")[0] == 0
        with doctor.of(Rule(limited, "accounts")):
            assert f"Fix: wait {text} before you sync" in doctor.find(1)["API"][1]
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", right)
        assert doctor.find(0)["API"][1].endswith(f"Syncs wait for {text}, too")
        assert "the account catalogue is rate-limited until" in doctor.find(int(seconds > 86_400))["API"][1]


def test_address_and_key_of_a_block_are_not_missing(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMHOUSE_CREDENTIALS", "production")
    found = doctor.find(0)
    of_block = ("note", "not checked: it is that of the Prefect block production")
    assert [found[name] for name in ("address", "key", "API")] == [of_block] * 3


def test_a_full_disk_and_a_running_up_are_found(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    with doctor.of():
        found = doctor.find(0)
        assert (found["disk"][0], "are free in" in found["disk"][1]) == ("ok", True)
        assert "`gramhouse up` is not running on this machine" in found["schedules"][1]
        Path("data/prefect").mkdir(parents=True)
        usage = shutil.disk_usage(".")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        with hold(Path("data/prefect/up"), "gramhouse up", since="noon", pause=lambda _: None):
            found = doctor.find(1)
    assert found["disk"][1].startswith("1.0 kB are free in")
    assert found["schedules"][1].startswith("gramhouse up (process ")


def _hold(scope: str, until: datetime) -> None:
    with open_state(state_path(Path("data/warehouse.duckdb"))) as state:
        state.write(land, [ScopeCooldown(scope, until)])


def test_no_request_is_sent_before_a_cooldown_ends_or_while_another_process_writes(doctor: Doctor) -> None:
    with doctor.of():
        assert doctor.run_cli("sync")[0] == 0
        later = datetime.now(UTC) + timedelta(hours=2)
        for row in json.loads(doctor.run_cli("accounts", "--json")[1])["accounts"]:
            _hold(f"selected_account:{row['account_id']}", later)
        verdict, message = doctor.find(0)["API"]
        assert (verdict, message.startswith("media not checked")) == ("note", True)
        # A running sync would not know of a wait that an answer to another process asks for.
        with hold(Path("data/warehouse.duckdb"), "a sync", since="now", pause=lambda _: None):
            found = doctor.find(0)
        assert (found["API"][1].startswith("not checked: a sync"), found["warehouse"][0]) == (True, "note")
        _hold("account_catalog", later)
        assert "limited until" in doctor.find(0)["API"][1]
        # Without the state, the wait is unknown.
        state_path(Path("data/warehouse.duckdb")).unlink()
        assert doctor.find(1)["API"][0] == "note"


def test_a_long_cooldown_is_lifted_when_a_person_agrees(doctor: Doctor) -> None:
    with doctor.of():
        assert doctor.run_cli("sync")[0] == 0
        soon = datetime.now(UTC) + timedelta(hours=23)
        _hold("account_catalog", datetime(2082, 1, 2, tzinfo=UTC))
        _hold("selected_account:other", soon)
        for arguments, code in ((["--repair"], 1), (["--repair", "--yes"], 0)):
            assert doctor.run_cli("doctor", *arguments)[0] == code
            text = doctor.run_cli("doctor").text
            assert ("the account catalogue is rate-limited until 2082-01-02" in text) == bool(code)
    with open_state_read_only(state_path(Path("data/warehouse.duckdb"))) as state:
        assert state is not None
        assert state.read(read_cooldowns, now=datetime.now(UTC))["selected_account:other"] == soon


def _cut() -> None:
    part = next(Path("data/raw").glob("*/*.parquet"))
    part.write_bytes(part.read_bytes()[:100])


def _lose() -> None:
    Path("data/warehouse.duckdb").unlink()


# What makes commands that write fail: the damage or the settings, the check that finds it, and what that says.
UNWRITABLE: list[tuple[Callable[[], object], dict[str, str], str, str]] = [
    (_cut, {}, "warehouse", "this is not a parquet file"),
    (_lose, {}, "warehouse", "is the snapshot of another warehouse"),
    (bool, {"GRAMHOUSE_BASE_URL": "https://other.example.com"}, "warehouse", "was filled from"),
    (bool, {"GRAMHOUSE_HIDE": "captoin"}, "warehouse", "column 'captoin'"),
    (bool, {"GRAMHOUSE_SNAPSHOT": "notes.txt"}, "configuration", "notes.txt"),
    (bool, {"GRAMHOUSE_RAW": "notes.txt"}, "configuration", "not a folder"),
]


def test_what_makes_every_command_that_writes_fail_is_found(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    with doctor.of():
        assert doctor.run_cli("sync")[0] == 0
        Path("notes.txt").write_text("notes", encoding="utf-8")
        shutil.copytree("data", "whole")
        for damage, settings, check, message in UNWRITABLE:
            shutil.rmtree("data")
            shutil.copytree("whole", "data")
            damage()
            with monkeypatch.context() as wrong:
                for variable, value in settings.items():
                    wrong.setenv(variable, value)
                code, out, _ = doctor.run_cli("doctor", "--json")
                findings = json.loads(out)["findings"]
                bad = [one["message"] for one in findings if (one["check"], one["verdict"]) == (check, "bad")]
                assert (code in {1, 2}, any(message in text for text in bad)) == (True, True), (message, bad)
                # The checks after it go on.
                assert findings[-1]["check"] == "schedules"
                # A sync reads no part that it does not need.
                assert doctor.run_cli("sync")[0] in ({0} if damage is _cut else {1, 2, 3}), message
