"""Nights of an operator: what must hold of requests, of data, and of what commands say.

The service goes by the virtual clock, which only the waits of the run advance.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from flows.clock import SystemClock
from tests import operator as everywhere
from tests.api.asked import Asked
from tests.api.faults import JSON, Action, change_page, from_gateway, refuse
from tests.api.listed import ListedApi, account, daily, uuid
from tests.clocks import VirtualClock
from tests.operator import KEY, Done, use_empty_folder
from tests.prefect_api import free_port

# After every real time, so that nothing in a snapshot is stale by the reader's clock.
NIGHT = datetime(2126, 3, 1, 2, 15, tzinfo=UTC)


@dataclass(kw_only=True)
class Operator(everywhere.Operator):
    """An operator whose commands run in this process, on a virtual clock, against an API on a socket."""

    clock: VirtualClock
    servers: ExitStack

    def set(self, **settings: str) -> None:
        self.env |= {f"GRAMHOUSE_{name.upper()}": value for name, value in settings.items()}

    def connect(self, **given: Any) -> ListedApi:  # noqa: ANN401 - as ListedApi
        """Serve an API, and set its address."""
        service = self.servers.enter_context(ListedApi(clock=self.clock, **given).serve())
        self.set(base_url=service.url, api_key=KEY)
        return service

    def night(self, *arguments: str, code: int | None = 0) -> Done:
        """Sync, and let the clock advance to the next night."""
        done = self.run("sync", *arguments, code=code)
        self.clock.days(1)
        return done

    def count(self, table: str, condition: str = "true") -> int:
        return int(self.ask(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])

    def shown(self) -> str:
        """Return every value of the snapshot, as text."""
        tables = "SELECT DISTINCT schema_name, table_name FROM duckdb_columns() WHERE schema_name IN ('main', 'core')"
        names = self.ask(f"{tables} AND database_name = current_database() ORDER BY ALL")
        return "\n".join(str(self.ask(f'FROM "{schema}"."{table}"')) for schema, table in names)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    use_empty_folder(tmp_path, monkeypatch)
    clock = VirtualClock(NIGHT)
    for name in ("now", "monotonic", "sleep"):
        monkeypatch.setattr(SystemClock, name, staticmethod(getattr(clock, name)))
    with ExitStack() as servers:
        yield Operator(tmp_path, here=True, cwd=tmp_path, clock=clock, servers=servers)


def test_a_gateway_that_refuses_always_is_named(operator: Operator) -> None:
    operator.connect(fault=lambda asked: from_gateway(401) if asked.is_posts(2) else None)
    text = operator.run("sync", code=3).text
    assert [word in text for word in ("gateway", "API key", "grant")] == [True, False, False]


# The first answer with an id may be one of the service.
@pytest.mark.parametrize(("name", "value", "code"), [("Age", "3600", 1), ("X-Correlation-ID", "1" * 26, 3)])
def test_what_a_cache_kept_is_not_imported(operator: Operator, name: str, value: str, code: int) -> None:
    def kept(asked: Asked) -> Action:
        items = service.records(asked.number, asked.surface or "")
        body = json.dumps({"items": items, "next_cursor": None}).encode()
        return Action("raw", body=body, headers={**JSON, name: value})

    service = operator.connect(accounts=1)
    queries = ("SELECT surface, complete_at FROM freshness ORDER BY surface", "FROM media ORDER BY media_id")
    operator.night()
    before = [operator.ask(query) for query in queries]
    service.fault = kept
    assert "cache" in operator.run("sync", code=code).text
    assert [operator.ask(query) for query in queries] == before


def test_an_outage_costs_no_scan(operator: Operator) -> None:
    service, refused_at, seconds = operator.connect(accounts=40, posts=1), list[float](), 600

    def away(asked: Asked) -> Action | None:
        if asked.number is None or operator.clock.passed >= seconds:
            return None
        refused_at.append(operator.clock.passed)
        return from_gateway(502)

    service.fault = away
    operator.run("sync", "--surface", "posts")
    # It is noticed after a second. From then on, one request at a time asks whether it is back, after pauses of 1, 2, 4
    # ... 60 s. Those in flight were sent before that; how many, the machine decides.
    in_flight, pauses = 16, 6 + seconds / 60
    assert sum(at > 1 for at in refused_at) <= in_flight + pauses


def test_what_failed_for_a_passing_reason_is_scanned_once_more(operator: Operator) -> None:
    service, away = operator.connect(), refuse("api_internal_error")
    service.fault = lambda asked: away if asked.is_posts(2) and len(service.post_cursors(2)) <= 6 else None
    operator.run("sync")


def test_a_run_that_failed_as_a_whole_is_repeated_later(operator: Operator) -> None:
    operator.set(base_url=f"http://127.0.0.1:{free_port()}", api_key="key")
    text = operator.run("sync", "--retries", "1", code=1).text
    assert "The run ended failed. Retry 1 of 1 in 5 min (connection_failed)" in text
    assert operator.inside("SELECT state FROM core.runs") == [("failed",), ("failed",)]


def test_a_service_that_cannot_answer_large_pages_is_asked_for_less(operator: Operator) -> None:
    service, failure = operator.connect(accounts=2, posts=30), from_gateway(504)
    service.fault = lambda asked: failure if asked.is_posts(2) and int(asked.limit) > 5 else None
    operator.run("sync", "--surface", "posts")
    assert operator.count("run_outcomes", "surface = 'posts' AND detail IS NOT NULL") == 1


@pytest.mark.parametrize(("refused", "ends"), [([2, 6, 11], True), (range(2, 99, 3), False)])
def test_a_scan_begins_again_as_long_as_it_gets_further(operator: Operator, refused: list[int], *, ends: bool) -> None:
    """The requests for posts with these numbers get an answer that refuses their cursor."""
    operator.set(page_size="2")
    service = operator.connect(accounts=1, posts=12)
    service.fault = lambda asked: (
        refuse("api_invalid_cursor") if asked.is_posts(1) and len(service.post_cursors()) - 1 in refused else None
    )
    text = operator.run("sync", "--surface", "posts", code=0 if ends else 3).text
    assert ("cannot finish" in text) is not ends
    assert ends or "no action needed" not in text


REMOVED = "removed_at IS NOT NULL"
SECRET = "a caption that must stay hidden"


def test_what_two_nights_do_not_list_waits_for_a_person(operator: Operator) -> None:
    # Of an account with few items, all may go; but not those of many such accounts.
    service = operator.connect(accounts=3, posts=12)
    operator.night("--surface", "posts")
    service.change_posts = lambda _: []
    for _ in range(2):
        operator.night("--surface", "posts", code=3)
    assert operator.count("media", REMOVED) == 0
    operator.run("status", code=3)
    operator.night("--surface", "posts", "--accept-removals")
    assert operator.count("media", REMOVED) == 3 * 12


def test_what_is_listed_again_before_a_person_releases_it_stays(operator: Operator) -> None:
    service = operator.connect(accounts=3, posts=12)
    operator.night("--surface", "posts")
    for service.change_posts, code in ((lambda _: [], 3), (lambda _: [], 3), (list, 0)):
        operator.night("--surface", "posts", code=code)
    operator.night("--surface", "posts", "--accept-removals")
    assert operator.count("media", "removal IS NOT NULL") == 0
    assert operator.count("item_events", "event <> 'new'") == 0


def test_an_account_whose_id_is_missing_from_two_lists_is_not_removed(operator: Operator) -> None:
    service = operator.connect(posts=1)
    operator.night()
    service.change_accounts = lambda accounts: [accounts[0], {**accounts[1], "id": None}, accounts[2]]
    for _ in range(2):
        operator.night("--surface", "posts", code=3)
    assert operator.count("accounts", REMOVED) == 0
    assert "user_2" in operator.run("status", code=None).stdout


def test_a_key_that_sees_no_account_is_a_finding_from_the_first_night(operator: Operator) -> None:
    operator.connect(accounts=0)
    operator.night(code=3)
    operator.run("status", code=3)


def test_forgetting_an_account_keeps_what_is_of_the_one_that_took_its_name(operator: Operator) -> None:
    def rename(*names: str) -> None:
        service.change_accounts = lambda accounts: [
            {**one, "ig_username": name} for one, name in zip(accounts, names, strict=True)
        ]

    service = operator.connect(accounts=2)
    rename("alpha", "beta")
    operator.night("--surface", "posts")
    rename("omega", "alpha")
    nameless = change_page(lambda page: {**page, "items": [{"caption": "no id", "username": "alpha"}, *page["items"]]})
    service.fault = lambda asked: nameless if asked.is_posts(2) else None
    operator.night("--surface", "posts", code=None)
    operator.run("backfill", "--account", "alpha", "--surface", "posts", "--reason", "a new campaign", code=None)
    # A name that is a word changes no text, and one that is a feed's no selection of a sync.
    rename("posts", "alpha")
    operator.night(code=None)
    rename("the", "alpha")
    service.fault = lambda asked: refuse("api_automation_media_not_found") if asked.is_posts(2) else None
    operator.night(code=None)
    operator.run("backfill", "--account", "alpha", "--reason", "the owner of a scan asked", code=None)
    kept = (
        "SELECT account_id, payload FROM quarantine",
        "SELECT selection, reason FROM runs ORDER BY ALL",
        f"SELECT detail FROM run_outcomes WHERE detail IS NOT NULL AND account_id = '{uuid(2)}' ORDER BY ALL",
    )
    before = [operator.ask(query) for query in kept]
    assert all(before)
    operator.run("forget", uuid(1), "--yes")
    assert operator.count("accounts") == 1
    assert [operator.ask(query) for query in kept] == before


@pytest.mark.parametrize(("command", "value"), [("forget", None), ("sync", " ")])
def test_what_the_last_snapshot_hid_is_no_silent_change(operator: Operator, command: str, value: str | None) -> None:
    operator.connect(accounts=2, posts=1, change_posts=lambda posts: [{**post, "caption": SECRET} for post in posts])
    operator.set(hide="caption,public_id")
    operator.night()
    # Nor is what a person chose.
    public_id = account(1)["public_id"]
    if command == "sync":
        operator.run("backfill", "--account", public_id)
        assert [file.name for file in operator.folder.glob("*.json") if public_id in file.read_text()] == []
    del operator.env["GRAMHOUSE_HIDE"]
    if value is not None:
        operator.set(hide=value)
    of = [uuid(2), "--yes"] if command == "forget" else []
    assert "GRAMHOUSE_HIDE" in operator.run(command, *of, code=3).text
    shown = operator.shown()
    assert (SECRET in shown, public_id in shown) == (False, False)


def test_a_query_that_is_not_utf_8_is_one_line(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    operator.connect(accounts=1, posts=1)
    operator.run("sync")
    for query in (b"SELECT \xff", b"\x80", b"SELECT 'caf\xe9'"):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(query), encoding="utf-8"))
        [line] = operator.run("query", "-", code=2).stderr.splitlines()
        assert "UTF-8" in line


def test_explain_does_not_promise_a_scan_of_an_unknown_status(operator: Operator) -> None:
    service = operator.connect(accounts=2, posts=1)
    operator.night()
    service.change_accounts = lambda accounts: [accounts[0], {**accounts[1], "status": "paused"}]
    operator.run("sync", code=None)
    [found] = operator.run("explain", "user_2", "--json").json()["found"]
    assert found["account"]["status"] == "paused"
    assert {(each["next_scan"], each["next_reason"]) for each in found["surfaces"]} == {("none", "unknown_status")}


def test_explain_names_the_scans_that_removed_an_item(operator: Operator) -> None:
    feed = daily(60, per_day=24)
    operator.connect(accounts=1, feeds={1: feed})
    operator.set(page_size="10", lookback_window="0")
    for night in range(5):
        if night == 3:
            del feed.posts[55]
        operator.night("--incremental", "--surface", "posts", code=None)
    assert operator.count("run_outcomes", "outcome = 'recent'") >= 2
    assert operator.count("media", "removed_at IS NOT NULL") == 1
    text = operator.run("explain", "1-55").text
    assert [each in text for each in ("Removed", "recent", "two complete scans")] == [True, True, False]


def test_the_address_in_the_active_profile_of_prefect_is_used(operator: Operator) -> None:
    operator.connect(accounts=2)
    profiles = operator.folder / "profiles.toml"
    profiles.write_text('active = "work"\nprofiles = "work"\n')
    refused = operator.run("sync", code=2, PREFECT_HOME=str(operator.folder)).stderr
    assert "profiles.toml is not a file of Prefect profiles. Fix: " in refused
    nowhere = "http://127.0.0.1:9/api"
    profiles.write_text(f'active = "work"\n[profiles.work]\nPREFECT_API_URL = "{nowhere}"\n')
    # A process reads Prefect's settings once.
    operator.here = False
    assert nowhere in operator.run("sync", code=1, PREFECT_HOME=str(operator.folder)).stderr
    assert not operator.snapshot.exists()
