"""`gramhouse status` and `runs`: not healthy if the last run was interrupted, failed, or is too old."""

import asyncio
import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.sandbox.http.replies import PageRequest, Reply
from connectors.state.database import open_state, state_path
from connectors.state.runs import begin_run, end_run
from connectors.warehouse.storage.holder import hold
from flows.cli.commands.status import report
from flows.config.settings import Settings, load
from flows.engine.resources import open_resources
from flows.engine.upkeep import publish_now
from flows.reporting.exit_code import ExitCode
from models.runs import RunState
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, RejectedApi, daily
from tests.clocks import START
from tests.operator import Cli
from tests.runs import stored_state, synced

pytestmark = pytest.mark.anyio

SNAPSHOT = Path("analytics.duckdb")
HERE = ("--snapshot", "analytics.duckdb", "--warehouse", "warehouse.duckdb")


def _settings() -> Settings:
    return load(snapshot=SNAPSHOT, warehouse=Path("warehouse.duckdb"))


def _looked(capsys: pytest.CaptureFixture[str], after: timedelta = timedelta()) -> tuple[ExitCode, dict[str, Any]]:
    code = report(_settings(), START + after, as_json=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, found


def _message(capsys: pytest.CaptureFixture[str], after: timedelta = timedelta()) -> str:
    report(_settings(), START + after)
    return capsys.readouterr().out


async def test_a_run_that_is_complete_is_healthy_until_it_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await synced(tmp_path, ListedApi(accounts=9, expired=frozenset({9})))
    code, found = _looked(capsys, timedelta(hours=36))
    assert (code, found["attention"], found["stale"], found["oldest_age_seconds"]) == (0, [], [], 36 * 3600)
    assert {each["stale_after"] for each in (*found["freshness"], found["totals"])} == {36 * 3600}
    assert "posts refreshed within" in _message(capsys)

    code, found = _looked(capsys, timedelta(days=7))
    assert (code, found["attention"], found["oldest_age_seconds"]) == (3, ["stale"], 7 * 86_400)
    # The account whose token is expired is not among them: nothing can be done here.
    names = {f"user_{number}" for number in range(1, 9)}
    assert {each["ig_username"] for each in found["stale"] if each["surface"] == "posts"} == names
    text = _message(capsys, timedelta(days=7))
    assert "8 of 8 accounts: posts not refreshed" in text
    assert "user_1, user_2, user_3, user_4, user_5 and 3 more" in text


async def test_media_of_an_account_have_no_age_until_each_surface_was_scanned(tmp_path: Path, run_cli: Cli) -> None:
    def failure(request: Asked) -> Action | None:
        return refuse("api_forbidden") if request.is_posts(2) else None

    await synced(tmp_path, ListedApi(fault=failure))
    found = json.loads(run_cli("accounts", "--json", *HERE[:2])[1])["accounts"]
    assert {each["ig_username"]: each["media_as_of"] is None for each in found} == {
        "user_1": False,
        "user_2": True,
        "user_3": False,
    }


async def test_removals_that_no_scan_could_decide_for_too_long_are_not_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await synced(tmp_path, ListedApi())
    with duckdb.connect(tmp_path / "warehouse.duckdb") as db:
        db.execute("UPDATE core.closed_scans SET removals_undecided_since = complete_at WHERE surface = 'stories'")
    await publish_now(_settings())
    code, found = _looked(capsys, timedelta(hours=35))
    assert (code, found["attention"], found["undecided"]) == (0, [], [])
    code, found = _looked(capsys, timedelta(hours=37))
    assert (code, found["attention"]) == (3, ["stale", "removals_undecided"])
    assert [each["ig_username"] for each in found["undecided"]] == ["user_1", "user_2", "user_3"]
    assert {each["surface"] for each in found["undecided"]} == {"stories"}
    text = " ".join(_message(capsys, timedelta(hours=37)).split())
    assert "no missing items of 3 accounts were marked as removed or expired since" in text
    assert "rejected records (user_1, user_2, user_3). Fix: `gramhouse quarantine` lists them" in text


async def test_a_missing_snapshot_is_not_healthy(tmp_path: Path, run_cli: Cli) -> None:
    await synced(tmp_path, ListedApi())
    (tmp_path / SNAPSHOT).unlink()
    code, out, err = run_cli("status", *HERE)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "There is no snapshot at analytics.duckdb" in err
    assert "Fix: `gramhouse publish`" in err


async def test_a_log_of_another_program_is_reported_and_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run_cli: Cli
) -> None:
    await synced(tmp_path, ListedApi())
    (tmp_path / "analytics.duckdb.wal").write_bytes(b"of another program")
    code, found = _looked(capsys)
    assert (code, found["attention"], found["totals"]) == (3, ["snapshot_log"], None)
    output = _message(capsys)
    assert found["snapshot_problem"] in output
    assert ("! Last run: sync: complete" in output, "\u2714" in output) == (True, False)
    assert "left analytics.duckdb.wal. Fix: `gramhouse publish`" in found["snapshot_problem"]
    for command in (("query", "SELECT 1"), ("accounts",), ("export", "out")):
        failed, out, err = run_cli(*command, *HERE[:2])
        assert (failed, out, len(err.splitlines())) == (1, "", 1)
        assert "left analytics.duckdb.wal" in err
    await publish_now(_settings())
    assert _looked(capsys)[0] == 0


async def test_failed_scans_are_unhealthy_and_deferred_ones_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = ListedApi(fault=lambda request: refuse("rate_limited", 9000) if request.is_posts(1) else None)
    await synced(tmp_path, service)
    assert _looked(capsys)[0] == 0
    service.fault = lambda request: refuse("api_automation_media_not_found") if request.is_posts(1) else None
    service.clock.passed = 86_400
    await synced(tmp_path, service)
    assert (_looked(capsys)[0], _looked(capsys)[1]["attention"]) == (3, ["failed"])


async def test_the_age_of_scans_and_gaps_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = ListedApi(2, feeds={1: daily(200), 2: daily(200)})
    denied = refuse("api_forbidden")
    for _ in range(2):
        await synced(tmp_path, service, mode="incremental", page_size=10, full_refresh_every=300)
        service.clock.days(1)
        service.fault = lambda each: denied if each.is_posts(2) and each.cursor == "c20" else None
    _, found = _looked(capsys, timedelta(days=1, hours=4))
    [recent], [gap] = found["recent"], found["gaps"]
    assert (recent["surface"], recent["accounts"]) == ("posts", 1)
    assert (recent["recent"], recent["complete"]) == (4 * 3600, 28 * 3600)
    assert (gap["ig_username"], gap["surface"], gap["reason"], gap["pages"]) == ("user_2", "posts", "api_forbidden", 2)
    text = _message(capsys, timedelta(days=1, hours=4))
    assert "posts of 1 account: oldest recent scan 4 hours ago, oldest full scan a day ago" in text
    assert "! 1 scan ended early and left a gap, which the next scan reads (user_2)." in text


async def test_accounts_that_were_never_scanned_to_the_end_are_not_called_refreshed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = RejectedApi(accounts=3, posts=4, rejected=lambda number, surface: 4 * ((number, surface) == (1, "posts")))
    for _ in range(2):
        await synced(tmp_path, service)
        assert (_looked(capsys)[0], _looked(capsys)[1]["attention"]) == (3, ["failed"])
        text = " ".join(_message(capsys).split())
        assert "2 of 3 accounts: posts refreshed within 1 d 12 h; 1 never scanned to the end" in text
        assert "3 of 3 accounts: stories refreshed within 1 d 12 h;" in text
        assert "items_rejected: 4 of 4 items have no id that gramhouse knows" in text
        assert "set media_id under [mapping] in gramhouse.toml" in text
        service.rejected = lambda _, surface: 4 * (surface == "posts")
        service.clock.days(0.1)
    service = RejectedApi(accounts=2, posts=4, rejected=service.rejected)
    for file in ("warehouse.duckdb", "warehouse.duckdb.state.sqlite", "analytics.duckdb"):
        (tmp_path / file).unlink()
    shutil.rmtree(tmp_path / "raw")
    await synced(tmp_path, service)
    assert "0 of 2 accounts: posts refreshed within 1 d 12 h; 2 never scanned to the end" in _message(capsys)


def _runs(run_cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run_cli("runs", "--json", *HERE)[1])["runs"]
    return found


class Stopping(ListedApi):
    """An API that never responds to a request for posts of the second account."""

    waits: asyncio.Event

    async def answer(self, request: PageRequest) -> Reply:
        if Asked.of(request).is_posts(2):
            self.waits.set()
            await asyncio.Event().wait()
        return await super().answer(request)


async def test_a_run_that_is_cancelled_is_shown_although_the_snapshot_is_older(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ListedApi()
    # What publishes has the service's clock: this machine's is ahead of it, and a time in the future is a warning.
    for module in ("flows.engine.upkeep", "flows.engine.resources"):
        monkeypatch.setattr(f"{module}.SystemClock", lambda: first.clock)
    await synced(tmp_path, first)
    first.clock.passed = 86_400
    service = Stopping(clock=first.clock)
    service.waits = asyncio.Event()
    task = asyncio.create_task(synced(tmp_path, service))
    await service.waits.wait()
    assert stored_state(tmp_path, "SELECT pid FROM runs WHERE state = 'running'") == [(os.getpid(),)]
    code, found = _looked(capsys, timedelta(days=1))
    assert (code, found["last_run"]["state"]) == (0, "running")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    code, found = _looked(capsys, timedelta(days=1))
    assert (code, found["attention"], found["last_run"]["state"]) == (3, ["interrupted"], "interrupted")
    assert found["last_run"]["pages"] > 0
    rows = _runs(run_cli)
    assert [row["state"] for row in rows] == ["interrupted", "complete"]
    assert "interrupted" in run_cli("runs", *HERE)[1]

    # After publishing, the snapshot lists it once, and the status is still not healthy.
    await publish_now(_settings())
    assert [row["state"] for row in _runs(run_cli)] == ["interrupted", "complete"]
    assert _looked(capsys, timedelta(days=1))[1]["attention"] == ["interrupted"]
    # Nor does a run of less make up for it.
    first.clock.passed += 60
    await synced(tmp_path, first, surfaces=("stories",))
    code, found = _looked(capsys, timedelta(days=1))
    assert (code, found["last_run"]["state"], found["unresolved"][0]["state"]) == (3, "complete", "interrupted")
    first.clock.passed += 60
    await synced(tmp_path, first)
    assert _looked(capsys, timedelta(days=1))[0] == 0


async def test_a_missing_or_damaged_state_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run_cli: Cli
) -> None:
    await synced(tmp_path, ListedApi())
    path = state_path(tmp_path / "warehouse.duckdb")
    path.write_text("{" * 1000)
    assert (_looked(capsys)[0], _looked(capsys)[1]["attention"]) == (3, ["status_file"])
    assert _message(capsys).count("cannot be used: file is not a database") == 1
    path.unlink()
    assert _looked(capsys)[0] == 0
    assert _message(capsys).count("There is no state beside") == 1
    code, _, err = run_cli("runs", *HERE)
    assert (code, len(err.splitlines())) == (0, 1)


def test_a_machine_with_the_snapshot_alone_shows_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(synced(tmp_path, ListedApi()))
    for path in tmp_path.glob("warehouse.duckdb*"):
        path.unlink()
    code, found = _looked(capsys)
    assert (code, found["last_run"]["state"], found["totals"]["accounts"]) == (0, "complete", 3)


SERVICE = "https://api.example.com"
CONFIGURED = {
    "GRAMHOUSE_SNAPSHOT": "analytics.duckdb",
    "GRAMHOUSE_WAREHOUSE": "warehouse.duckdb",
    "GRAMHOUSE_BASE_URL": SERVICE,
    "GRAMHOUSE_API_KEY": "a-key",
}
# What is wrong when a sync starts, as environment, and a part of the message; the file `gramhouse.toml` is its content.
CAUSES = {
    "no key": ({"GRAMHOUSE_API_KEY": ""}, "No API key"),
    "no address": ({"GRAMHOUSE_BASE_URL": ""}, "No API address"),
    "key file gone": ({"GRAMHOUSE_API_KEY": "", "GRAMHOUSE_API_KEY_FILE": "gone"}, "the file cannot be read"),
    "another service": ({"GRAMHOUSE_BASE_URL": "https://other.example.com"}, "was filled from"),
    "snapshot is a folder": ({"GRAMHOUSE_SNAPSHOT": "folder"}, "folder"),
    "not TOML": ({"gramhouse.toml": "keep = ["}, "is not valid TOML"),
}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse of SERVICE and its snapshot."""
    folder = tmp_path_factory.mktemp("healthy")
    asyncio.run(synced(folder, ListedApi(), base_url=SERVICE))
    return folder


@pytest.fixture
def configured(healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of it, and a configuration with which it can be synced."""
    shutil.copytree(healthy, tmp_path, dirs_exist_ok=True)
    for name, value in CONFIGURED.items():
        monkeypatch.setenv(name, value)


async def _begin() -> None:
    async with open_resources(_settings(), "gramhouse sync"):
        pass


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize(
    ("command", "causes"), [(("sync",), [*CAUSES]), (("backfill", "--all"), ["no key"])], ids=["sync", "backfill"]
)
def test_a_run_that_fails_before_its_first_request_is_seen_until_another_one_begins(
    capsys: pytest.CaptureFixture[str],
    run_cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    causes: list[str],
) -> None:
    Path("folder").mkdir()
    assert _looked(capsys)[0] == 0
    for name in causes:
        cause, text = CAUSES[name]
        with monkeypatch.context() as wrong:
            Path("gramhouse.toml").write_text(cause.get("gramhouse.toml", ""))
            for variable, value in cause.items():
                wrong.setenv(variable, value)
            wrong.delenv("gramhouse.toml", raising=False)
            code, _, err = run_cli(*command)
        assert (code in {1, 2}, text in err) == (True, True), f"{name}: {err}"
        Path("gramhouse.toml").unlink()
        code, found = _looked(capsys)
        assert (code, found["attention"], found["last_run"]["state"]) == (3, ["failed"], "complete"), name
        assert (found["last_command"]["kind"], text in found["last_command"]["detail"]) == (command[0], True), name
        if name == "no key":
            assert f"Last command: {command[0]}: failed" in _message(capsys)
            # A publish does not make up for it.
            asyncio.run(publish_now(_settings()))
            assert _looked(capsys)[0] == 3
            asyncio.run(_begin())
            asyncio.run(publish_now(_settings()))
            assert _looked(capsys)[0] == 0
        asyncio.run(_begin())


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_run_that_could_not_publish_is_not_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_first: bool
) -> None:
    api = ListedApi(accounts=2)
    if not is_first:
        await synced(tmp_path, api)
    await synced(tmp_path, api, hide=("captoin",))
    code, found = _looked(capsys)
    assert (code, found["attention"], found["last_run"]["error_code"]) == (3, ["unpublished"], "snapshot_not_replaced")
    text = _message(capsys)
    assert "no table has a column 'captoin'" in text
    assert is_first or "The snapshot does not contain this run" in text
    await publish_now(_settings())
    assert _looked(capsys)[0] == 0


WRONG_OPTIONS = [
    ("sync", "--page-size", "0"),
    ("sync", "--incremental", "--full-refresh"),
    ("backfill", "--expired-since", "yesterday"),
]


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("command", WRONG_OPTIONS, ids=" ".join)
def test_wrong_options_are_a_failed_start_unless_typed_at_a_terminal(
    capsys: pytest.CaptureFixture[str], run_cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stderr.isatty", lambda: True)
        assert run_cli(*command)[0] == 2
        assert _looked(capsys)[0] == 0
    code, _, err = run_cli(*command)
    code_of_status, found = _looked(capsys)
    assert (code, code_of_status, found["attention"], found["last_command"]["kind"]) == (2, 3, ["failed"], command[0])
    assert err == f"✖ {found['last_command']['detail']}.\n"
    assert run_cli("publish")[0] == 0
    asyncio.run(_begin())
    assert _looked(capsys)[0] == 0
    # What a terminal shows of settings, the runs on schedule have, too.
    monkeypatch.setenv("GRAMHOUSE_PAGE_SIZE", "0")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run_cli("sync")[0] == 2
    monkeypatch.delenv("GRAMHOUSE_PAGE_SIZE")
    assert _looked(capsys)[0] == 3


@pytest.mark.parametrize(
    ("snapshot", "key", "why"), [("folder", "a-key", "folder"), ("other.duckdb", "", "No API key")]
)
def test_a_snapshot_that_cannot_be_read_does_not_hide_that_its_sync_fails(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch, snapshot: str, key: str, why: str
) -> None:
    for name, value in (CONFIGURED | {"GRAMHOUSE_SNAPSHOT": snapshot, "GRAMHOUSE_API_KEY": key}).items():
        monkeypatch.setenv(name, value)
    Path("folder").mkdir()
    duckdb.connect("other.duckdb").close()
    assert run_cli("sync")[0] in {1, 2}
    code, out, _ = run_cli("status")
    assert (code, f"Last command: sync: failed ({why}" in out) == (3, True)


@pytest.mark.usefixtures("configured")
def test_a_wrong_selection_and_another_writer_are_no_failed_runs(
    capsys: pytest.CaptureFixture[str], run_cli: Cli
) -> None:
    assert run_cli("backfill", "--account", "nobody")[0] == 2
    assert run_cli("backfill", "--failed")[0] == 0
    with hold(Path("warehouse.duckdb"), "another", since="noon", pause=lambda _: None):
        assert run_cli("sync")[0] == 4
    assert _looked(capsys)[0] == 0


async def test_before_anything_is_published_an_interrupted_run_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_state(state_path(tmp_path / "warehouse.duckdb")) as state:
        state.write(begin_run, "r1", "sync", pid=1, now=datetime.now(UTC), within=timedelta(), version="1")
        state.write(end_run, "r1", RunState.INTERRUPTED, now=datetime.now(UTC), detail="Stopped.")
    assert (_looked(capsys)[0], _looked(capsys)[1]["totals"]) == (3, None)
    assert "Last run: sync: interrupted (Stopped)" in _message(capsys)
