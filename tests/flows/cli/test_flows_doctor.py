"""`gramhouse doctor` detects a key that cannot list media, and honours every Retry-After."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from connectors.sandbox.http.requests import NO_SCOPE_KEY
from connectors.sandbox.settings import SandboxSettings
from connectors.state.database import open_state, open_state_read_only, state_path
from connectors.state.inbox import land, read_cooldowns
from connectors.warehouse.storage.holder import hold
from models.checkpoint import ScopeCooldown
from tests.api.faults import Action, Rule, change_page
from tests.api.server import Api
from tests.operator import run_here

pytestmark = pytest.mark.usefixtures("service")
WAREHOUSE = Path("data/warehouse.duckdb")


def find(code: int) -> dict[str, tuple[str, str]]:
    """Return the last result of each check."""
    done = run_here("doctor", "--json")
    found = {finding["check"]: (finding["verdict"], finding["message"]) for finding in done.json()["findings"]}
    assert done.code == code, found
    return found


def serving(*rules: Rule) -> Api:
    return Api(SandboxSettings(accounts=4, posts=5), rules)


def test_a_key_that_cannot_list_media_is_found_before_the_nightly_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # One account that is gone is no problem of the key.
    with serving(Rule(Action("error", code="api_automation_media_not_found"), "media")).serve() as api:
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", api.url)
        assert find(0)["API"][0] == "note"
        # A malformed account is not counted as reached.
        api.script.replace([Rule(change_page(lambda page: {**page, "items": [*page["items"], {}]}))])
        monkeypatch.setenv("GRAMHOUSE_API_KEY", NO_SCOPE_KEY)
        assert "the key reaches 4 accounts" in run_here("doctor").text
        verdict, message = find(1)["API"]
    assert (verdict, "api_scope_denied" in message) == ("bad", True)


def _hold(scope: str, until: datetime) -> None:
    with open_state(state_path(WAREHOUSE)) as state:
        state.write(land, [ScopeCooldown(scope, until)])


def test_a_rate_limit_is_kept_if_the_warehouse_is_that_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Rule(Action("error", code="rate_limited", retry_after=10**13), "accounts")
    with serving().serve() as right, serving(limit).serve() as other:
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", right.url)
        assert run_here("sync").code == 0
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", other.url)
        assert "Fix: wait 36525 d before you sync" in find(1)["API"][1]
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", right.url)
        right.script.replace([limit])
        assert find(0)["API"][1].endswith("Syncs wait for 36525 d, too")
        # A person may lift one that is absurd; others stay.
        soon = datetime.now(UTC) + timedelta(hours=23)
        _hold("selected_account:other", soon)
        right.script.replace()
        for arguments, code in (([], 1), (["--repair"], 1), (["--repair", "--yes"], 0)):
            done = run_here("doctor", *arguments)
            assert (done.code, "the account catalogue is rate-limited until" in done.text) == (code, bool(code))
    with open_state_read_only(state_path(WAREHOUSE)) as state:
        assert state is not None
        assert state.read(read_cooldowns, now=datetime.now(UTC)) == {"selected_account:other": soon}


def test_address_and_key_of_a_block_are_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMHOUSE_CREDENTIALS", "production")
    found = find(0)
    of_block = ("note", "not checked: it is that of the Prefect block production")
    assert [found[name] for name in ("address", "key", "API")] == [of_block] * 3


def test_a_full_disk_and_a_running_up_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find(0)
    assert (found["disk"][0], "are free in" in found["disk"][1]) == ("ok", True)
    assert "`gramhouse up` is not running on this machine" in found["schedules"][1]
    Path("data/prefect").mkdir(parents=True)
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with hold(Path("data/prefect/up"), "gramhouse up", since="noon", pause=lambda _: None):
        found = find(1)
    assert found["disk"][1].startswith("1.0 kB are free in")
    assert found["schedules"][1].startswith("gramhouse up (process ")


def test_no_request_is_sent_before_a_cooldown_ends_or_while_another_process_writes() -> None:
    assert run_here("sync").code == 0
    later = datetime.now(UTC) + timedelta(hours=2)
    for row in run_here("accounts", "--json").json()["accounts"]:
        _hold(f"selected_account:{row['account_id']}", later)
    verdict, message = find(0)["API"]
    assert (verdict, message.startswith("media not checked")) == ("note", True)
    # A running sync would not know of a wait that an answer to another process asks for.
    with hold(WAREHOUSE, "a sync", since="now", pause=lambda _: None):
        found = find(0)
    assert (found["API"][1].startswith("not checked: a sync"), found["warehouse"][0]) == (True, "note")
    _hold("account_catalog", later)
    assert "limited until" in find(0)["API"][1]
    # Without the state, the wait is unknown.
    state_path(WAREHOUSE).unlink()
    assert find(1)["API"][0] == "note"


def _cut() -> None:
    # The last one is read by every start.
    part, _ = sorted(Path("data/raw").glob("*/*.parquet"))
    part.write_bytes(part.read_bytes()[:100])


def _lose() -> None:
    WAREHOUSE.unlink()


# What makes commands that write fail: the damage or the settings, the check that finds it, and what that says.
UNWRITABLE: list[tuple[Callable[[], object], dict[str, str], str, str]] = [
    (_cut, {}, "warehouse", "this is not a parquet file"),
    (_lose, {}, "warehouse", "is the snapshot of another warehouse"),
    (bool, {"GRAMHOUSE_BASE_URL": "https://other.example.com"}, "warehouse", "was filled from"),
    (bool, {"GRAMHOUSE_HIDE": "captoin"}, "warehouse", "column 'captoin'"),
    (bool, {"GRAMHOUSE_SNAPSHOT": "notes.txt"}, "configuration", "notes.txt"),
    (bool, {"GRAMHOUSE_RAW": "notes.txt"}, "configuration", "not a folder"),
]


def test_what_makes_every_command_that_writes_fail_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(2):
        httpx.post(f"{os.environ['GRAMHOUSE_BASE_URL']}/_sandbox/day", json={"day": day}).raise_for_status()
        assert run_here("sync").code == 0
    Path("notes.txt").write_text("notes", encoding="utf-8")
    shutil.copytree("data", "whole")
    for damage, settings, check, message in UNWRITABLE:
        shutil.rmtree("data")
        shutil.copytree("whole", "data")
        damage()
        with monkeypatch.context() as wrong:
            for variable, value in settings.items():
                wrong.setenv(variable, value)
            done = run_here("doctor", "--json")
            findings = done.json()["findings"]
            bad = [one["message"] for one in findings if (one["check"], one["verdict"]) == (check, "bad")]
            assert (done.code in {1, 2}, any(message in text for text in bad)) == (True, True), (message, bad)
            # The checks after it go on.
            assert findings[-1]["check"] == "schedules"
            # A sync reads no part that it does not need.
            assert run_here("sync").code in ({0} if damage is _cut else {1, 2, 3}), message
