"""`gramhouse status` and `runs`: not healthy if the last run was interrupted, failed, or is too old."""

import asyncio
import json
import os
import shutil
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import duckdb
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from connectors.state.database import state_path
from connectors.warehouse.storage.holder import hold
from flows.cli.commands.status import answer, metrics, read_status
from flows.config.settings import load
from flows.engine.upkeep import publish_now
from flows.reporting.words import json_value
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi
from tests.clocks import START
from tests.operator import Cli, Operator
from tests.runs import synced

pytestmark = pytest.mark.anyio

SERVICE = "https://api.example.com"
PLACES = {"snapshot": "analytics.duckdb", "warehouse": "warehouse.duckdb"}


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLACES.items():
        monkeypatch.setenv(f"GRAMHOUSE_{name.upper()}", value)


class Status:
    """The status as of some days after START: its exit code, its document, and its text on one line."""

    def __init__(self, days: float = 0, **files: str) -> None:
        shown = answer(read_status(load(**PLACES | files), START + timedelta(days=days)))
        self.found = json.loads(json.dumps(shown.document, default=json_value))
        with redirect_stdout(StringIO()) as printed:
            self.code = shown.show(as_json=False)
        self.lines = printed.getvalue()
        self.text = " ".join(self.lines.split())

    @property
    def attention(self) -> list[str]:
        assert self.code == (3 if self.found["attention"] else 0)
        return list(self.found["attention"])


async def test_a_run_that_is_complete_is_healthy_until_it_is_stale(tmp_path: Path) -> None:
    await synced(tmp_path, ListedApi(accounts=9, expired=frozenset({9})))
    status = Status(1.5)
    assert (status.attention, status.found["stale"], status.found["oldest_age_seconds"]) == ([], [], 36 * 3600)
    assert {each["stale_after"] for each in (*status.found["freshness"], status.found["totals"])} == {36 * 3600}
    assert "posts of 8 accounts refreshed within 1 d 12 h" in status.text
    status = Status(7)
    assert (status.attention, status.found["oldest_age_seconds"]) == (["stale"], 7 * 86_400)
    # The account whose token is expired is not among them: nothing can be done here.
    stale = {each["ig_username"] for each in status.found["stale"] if each["surface"] == "posts"}
    assert stale == {f"user_{number}" for number in range(1, 9)}
    assert "8 of 8 accounts: posts not refreshed" in status.text
    assert "user_1, user_2, user_3, user_4, user_5 and 3 more" in status.text


async def test_a_missing_or_older_snapshot_or_a_foreign_log_is_not_healthy(tmp_path: Path, run_cli: Cli) -> None:
    await synced(tmp_path, ListedApi())
    older = shutil.copy(tmp_path / "analytics.duckdb", "older.duckdb")
    await synced(tmp_path, ListedApi())
    (tmp_path / "analytics.duckdb.wal").write_bytes(b"of another program")
    status = Status()
    assert (status.attention, status.found["totals"]) == (["snapshot_log"], None)
    assert "left analytics.duckdb.wal. Fix: `gramhouse publish`" in status.found["snapshot_problem"]
    assert status.found["snapshot_problem"] in status.text
    assert "Last run: sync: complete" in status.text
    for command in (("query", "SELECT 1"), ("accounts",), ("export", "out")):
        failed, out, err = run_cli(*command)
        assert (failed, out, len(err.splitlines()), "left analytics.duckdb.wal" in err) == (1, "", 1, True)
    await asyncio.to_thread(publish_now, load())
    assert Status().attention == []
    # A copy of it from a backup, which lacks the last run.
    shutil.copy(older, "analytics.duckdb")
    assert Status().attention == ["unpublished"]
    (tmp_path / "analytics.duckdb").unlink()
    assert Status().attention == ["snapshot_log"]
    assert "no snapshot at analytics.duckdb, but a run published one. Fix: `gramhouse publish`" in Status().text


async def test_a_cancelled_run_is_shown_at_once(tmp_path: Path, run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def states() -> list[str]:
        return [row["state"] for row in json.loads(run_cli("runs", "--json")[1])["runs"]]

    def cancel(asked: Asked) -> None:
        if asked.is_posts(2):
            assert Operator(tmp_path).in_state("SELECT pid FROM runs WHERE state = 'running'") == [(os.getpid(),)]
            status = Status(1)
            assert (status.attention, status.found["last_run"]["state"]) == ([], "running")
            task.cancel()

    service = ListedApi()
    # What publishes has the service's clock: this machine's is ahead of it, and a time in the future is a warning.
    for module in ("flows.engine.upkeep", "flows.engine.resources"):
        monkeypatch.setattr(f"{module}.SystemClock", lambda: service.clock)
    await synced(tmp_path, service)
    service.clock.days(1)
    service.fault = cancel
    task = asyncio.create_task(synced(tmp_path, service))
    with pytest.raises(asyncio.CancelledError):
        await task
    status = Status(1)
    assert (status.attention, status.found["last_run"]["state"]) == (["interrupted"], "interrupted")
    assert status.found["last_run"]["pages"] > 0
    assert states() == ["interrupted", "complete"]
    assert "interrupted" in run_cli("runs")[1]

    # After publishing, the snapshot lists it once, and the status is still not healthy.
    await asyncio.to_thread(publish_now, load())
    assert (states(), Status(1).attention) == (["interrupted", "complete"], ["interrupted"])
    # Nor does a run of less make up for it.
    service.fault = lambda _: None
    for surfaces, reasons in ((("stories",), ["interrupted"]), (("posts", "stories"), [])):
        service.clock.passed += 60
        await synced(tmp_path, service, surfaces=surfaces)
        status = Status(1)
        assert (status.attention, status.found["last_run"]["state"]) == (reasons, "complete")
        assert [each["state"] for each in status.found["unresolved"]] == reasons


async def test_a_missing_or_damaged_state_is_reported_in_one_line(tmp_path: Path, run_cli: Cli) -> None:
    await synced(tmp_path, ListedApi())
    path = state_path(tmp_path / "warehouse.duckdb")
    path.write_text("{" * 1000)
    status = Status()
    assert (status.attention, status.lines.count("cannot be used: file is not a database")) == (["status_file"], 1)
    path.unlink()
    status = Status()
    assert (status.attention, status.lines.count("There is no state beside")) == (["status_file"], 1)
    code, _, err = run_cli("runs")
    assert (code, len(err.splitlines())) == (0, 1)
    # As on a machine with the snapshot alone.
    (tmp_path / "warehouse.duckdb").unlink()
    status = Status()
    assert (status.attention, status.found["last_run"]["state"]) == ([], "complete")


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warehouse of SERVICE and its snapshot, and a configuration with which it can be synced."""
    asyncio.run(synced(tmp_path, ListedApi(), base_url=SERVICE))
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", SERVICE)
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "a-key")


@pytest.mark.usefixtures("configured")
def test_a_run_that_fails_at_its_start_is_seen_until_another_one_begins(tmp_path: Path, run_cli: Cli) -> None:
    assert Status().attention == []
    assert run_cli("sync", "--base-url", "https://other.example.com").code == 2
    status = Status()
    assert (status.attention, status.found["last_run"]["state"]) == (["failed"], "complete")
    assert "Last command: sync: failed (This warehouse was filled from" in status.text
    # A publish does not make up for it, a run does.
    publish_now(load())
    assert Status().attention == ["failed"]
    api = ListedApi()
    # Commands have this machine's clock.
    api.clock.passed = (datetime.now(UTC) - START).total_seconds()
    asyncio.run(synced(tmp_path, api, base_url=SERVICE))
    assert Status().attention == []
    # Also if no setting can be read.
    Path("gramhouse.toml").write_text("keep = [")
    assert run_cli("backfill", "--all").code == 2
    Path("gramhouse.toml").unlink()
    assert "Last command: backfill: failed (gramhouse.toml is not valid TOML" in Status().text


async def test_a_snapshot_of_another_warehouse_is_healthy_only_if_asked_for(tmp_path: Path, run_cli: Cli) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        await synced(tmp_path / name, ListedApi())
    assert run_cli("sync", "--warehouse", "here/warehouse.duckdb")[0] == 2
    for name, reasons in (("here", ["failed"]), ("there", ["failed", "snapshot_log"])):
        status = Status(snapshot=f"{name}/analytics.duckdb", warehouse="here/warehouse.duckdb")
        assert status.attention == reasons
        assert ("there/analytics.duckdb is the snapshot of another warehouse" in status.text) == (name == "there")
    settings = load(snapshot="there/analytics.duckdb", warehouse="here/warehouse.duckdb")
    found = read_status(settings, START, is_chosen=True)
    assert (found["attention"], found["last_command"]) == ([], None)


@pytest.mark.usefixtures("configured")
def test_what_is_mistyped_and_what_is_no_failure_is_not_recorded(run_cli: Cli) -> None:
    assert run_cli("backfill", "--account", "nobody")[0] == 2
    assert run_cli("backfill", "--failed")[0] == 0
    with hold(Path("warehouse.duckdb"), "another", since="noon", pause=lambda _: None):
        assert run_cli("sync")[0] == 4
    assert run_cli("sync", "--page-size", "0")[0] == 2
    assert run_cli("backfill", "--expired-since", "yesterday")[0] == 2
    assert Status().attention == []


def test_a_snapshot_that_cannot_be_read_does_not_hide_that_its_sync_fails(run_cli: Cli) -> None:
    duckdb.connect("other.duckdb").close()
    assert run_cli("sync", "--base-url", SERVICE, "--snapshot", "other.duckdb")[0] == 2
    status = Status(snapshot="other.duckdb")
    assert (status.code, "Last command: sync: failed (No API key" in status.text) == (3, True)


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    """Return the samples of an exposition; node_exporter reads the older text format, which knows fewer types."""
    samples = [[sample for family in parse(text) for sample in family.samples] for parse in (openmetrics, text_format)]
    assert {sample.timestamp for each in samples for sample in each} == {None}, "node_exporter refuses timestamps"
    found = [{(one.name, tuple(sorted(one.labels.items()))): one.value for one in each} for each in samples]
    assert found[0] == found[1]
    assert {line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")} == {"gauge"}
    return found[0]


async def test_the_status_as_metrics_for_prometheus(tmp_path: Path) -> None:
    def fault(asked: Asked) -> Action | None:
        if asked.is_posts(2):
            return refuse("api_forbidden")
        return refuse("rate_limited", 9000) if asked.is_posts(3) else None

    await synced(tmp_path, ListedApi(accounts=9, expired=frozenset({9}), fault=fault))
    status = read_status(load(), START + timedelta(hours=48))
    # An error code may be any text.
    more = {"outcome": "failed", "error_code": 'a\\"b\x1b[31m', "scans": 2, "resume_after": None}
    found = parsed(metrics(status | {"failures": [*status["failures"], more, more]}))

    def value(name: str, **labels: str) -> float:
        return found[f"gramhouse_{name}", tuple(sorted(labels.items()))]

    assert value("incomplete_scans", code='a\\"b [31m', outcome="failed") == 4
    assert value("incomplete_scans", code="api_forbidden", outcome="denied") == 1
    until = value("cooldown_until_timestamp_seconds", code="rate_limited", outcome="deferred")
    assert until >= START.timestamp() + 9000
    assert value("snapshot_readable") == 1
    reasons = {labels[0][1]: holds for (name, labels), holds in found.items() if name == "gramhouse_attention"}
    assert (len(reasons), {reason for reason, holds in reasons.items() if holds}) == (10, {"failed", "stale"})
    assert value("last_run_ended_timestamp_seconds") >= START.timestamp()
    assert value("last_run_count", what="added") == 3 * 6
    assert value("accounts_token_expired") == 1
    assert value("stale_accounts", surface="posts") == 8
    assert value("oldest_age_seconds", surface="posts") == 48 * 3600


def test_metrics_that_cannot_be_read_say_so_and_are_a_failure(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    # cron renames what was written, whatever the exit code.
    for code, why in ((1, "There is no snapshot"), (2, "GRAMHOUSE_TYPO")):
        done = run_cli("status", "--format", "openmetrics")
        assert (done.code, why in done.stderr) == (code, True)
        assert parsed(done.stdout) == {("gramhouse_snapshot_readable", ()): 0}
        monkeypatch.setenv("GRAMHOUSE_TYPO", "1")
