"""Five days; after each, the snapshot equals the model in every column."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from models.schema.mapping_built_in import BUILT_IN
from models.tables import core_superseded
from tests.e2e.processes import KEY, Operator, OperatorHere, SandboxProcess
from tests.e2e.sync.registered import Row, assert_every_value_has_its_column, json_types_met, registry, rows_of
from tests.model import reading
from tests.model.days import Account, Days, Media, Moment
from tests.model.reading import Item

pytestmark = pytest.mark.e2e

DAYS = 5
PAGE_SIZE = 6
COUNTED = ("added", "changed", "returned", "removed", "expired")
SUBTLER = ("returned as it was", "posts missing", "stories missing", "missing only once")
FIRST_DAY = 1


@dataclass
class Clock:
    """The time of each moment, read from the snapshots; a moment must have the same time in all of them."""

    text: dict[Moment, datetime] = field(default_factory=dict)

    def check(self, expected: object, found: object, where: object) -> None:
        if isinstance(expected, Moment):
            assert isinstance(found, datetime), where
            assert self.text.setdefault(expected, found) == found, (where, expected)
        else:
            assert found == expected, where

    def check_rows(
        self, expected: Mapping[Any, Mapping[str, object]], rows: Mapping[Any, Row], table: str, besides: Iterable[str]
    ) -> None:
        """Compare rows with the model's; `besides` are columns that are keys or compared elsewhere."""
        assert rows.keys() == expected.keys(), table
        for key, wanted in expected.items():
            assert rows[key].keys() == {*wanted, *besides}, table
            for column, value in wanted.items():
                self.check(value, rows[key][column], (table, key, column))

    def check_order(self, runs: list[tuple[datetime, datetime]]) -> None:
        """Assert that every page was received during its day's run, and the pages of a scan in order."""
        for (day, _, _), instant in self.text.items():
            assert runs[day][0] < instant < runs[day][1]
        for (one, before), (other, after) in pairwise(sorted(self.text.items())):
            if one[:2] == other[:2]:
                assert before < after, (one, other)


def keyed(rows: Iterable[Row], *names: str) -> dict[Any, Row]:
    listed = list(rows)
    found = {tuple(row[name] for name in names): row for row in listed}
    assert len(found) == len(listed)
    return found


def attributes(of: Account | Media) -> dict[str, Any]:
    return {one.name: getattr(of, one.name) for one in fields(of)}


@dataclass
class Ever:
    """The kinds of all values so far, by table and path, because a column's type only widens."""

    of: dict[str, dict[str, set[str]]] = field(default_factory=lambda: {"media": {}, "media_children": {}})

    def note(self, model: Days) -> None:
        children = [child for item in model.news for child in children_of(item)]
        for table, items in (("media", model.news), ("media_children", children)):
            for path, kinds in json_types_met(table, items).items():
                self.of[table].setdefault(path, set()).update(kinds)


KEYS = ("account_id", "surface", "media_id")


def check_accounts(model: Days, clock: Clock, operator: Operator) -> None:
    rows = keyed(rows_of(operator, "FROM accounts"), "account_id")
    expected = {(account_id,): attributes(account) for account_id, account in model.accounts.items()}
    clock.check_rows(expected, rows, "accounts", ["account_id"])
    periods = keyed(
        rows_of(
            operator,
            "SELECT *, row_number() OVER (PARTITION BY account_id ORDER BY valid_from) - 1 AS period"
            " FROM account_status_history",
        ),
        "account_id",
        "period",
    )
    wanted = {
        (account_id, number): {"status": status, "valid_from": since, "valid_to": until}
        for account_id, statuses in model.statuses.items()
        for number, (status, since, until) in enumerate(statuses)
    }
    clock.check_rows(wanted, periods, "account_status_history", ["account_id", "period"])


def canonical(model: Days, media: Media, account_id: str) -> dict[str, Any]:
    read = {column.column: reading.canonical(media.newest, column) for column in BUILT_IN.columns}
    text = {name: value for name, value in attributes(media).items() if name not in ("payload", "newest")}
    return {**read, **text, "ig_username": model.accounts[account_id].ig_username}


def check_media(model: Days, clock: Clock, operator: Operator, ever: Ever) -> None:
    joined = f"media AS m JOIN raw_media AS r USING ({', '.join(KEYS)})"
    rows = keyed(rows_of(operator, f"SELECT m.*, r.payload AS gh_payload FROM {joined}"), *KEYS)
    found = registry(operator)
    own = {field.column for (of, _), field in found.items() if of == "media" and field.type != "ROWS" and field.column}
    declared = {"media_id", *(column.column for column in BUILT_IN.columns)}
    expected = {key: canonical(model, media, key[0]) for key, media in model.media.items()}
    clock.check_rows(expected, rows, "media", [*KEYS, "gh_payload", *(own - declared)])
    for key, media in model.media.items():
        assert json.loads(rows[key]["gh_payload"]) == media.payload
    pairs = [(media.newest, rows[key]) for key, media in model.media.items()]
    assert_every_value_has_its_column("media", pairs, found, ever.of["media"])


def children_of(item: Item) -> list[Item]:
    lists = [found for path in BUILT_IN.children if isinstance(found := reading.at(item, path), list)]
    return [child for found in lists for child in found if isinstance(child, dict)]


def check_children(model: Days, clock: Clock, operator: Operator, ever: Ever) -> None:
    rows = keyed(rows_of(operator, "FROM media_children"), *KEYS, "position")
    children = {
        (*key, index): child
        for key, media in model.media.items()
        for index, child in enumerate(children_of(media.newest))
    }
    wanted = {
        key: {column.column: reading.canonical(child, column) for column in BUILT_IN.child_columns}
        for key, child in children.items()
    }
    clock.check_rows(wanted, rows, "media_children", [*KEYS, "position"])
    pairs = [(child, rows[key]) for key, child in children.items()]
    assert_every_value_has_its_column("media_children", pairs, registry(operator), ever.of["media_children"])


def check_history(model: Days, clock: Clock, operator: Operator) -> None:
    versions: dict[Any, list[tuple[Moment, Moment | None, Item]]] = {key: [] for key in model.media}
    for key, since, until, payload in model.superseded:
        versions[key].append((since, until, payload))
    for key, media in model.media.items():
        versions[key].append((media.content_changed_at, None, media.payload))
    number = f"row_number() OVER (PARTITION BY {', '.join(KEYS)} ORDER BY valid_from) - 1 AS version"
    rows = keyed(rows_of(operator, f"SELECT *, {number} FROM media_history"), *KEYS, "version")
    text = [column for column in BUILT_IN.columns if column.column in core_superseded.column_names]
    wanted = {
        (*key, index): {
            "valid_from": since,
            "valid_to": until,
            **{column.column: reading.canonical(payload, column) for column in text},
        }
        for key, several in versions.items()
        for index, (since, until, payload) in enumerate(several)
    }
    found = {field.column for (of, _), field in registry(operator).items() if of == "media" and field.type != "ROWS"}
    others = next(iter(rows.values())).keys() & found - {column.column for column in text}
    clock.check_rows(wanted, rows, "media_history", [*KEYS, "version", *others])
    assert operator.ask("SELECT count(*) FROM media_superseded") == [(len(model.superseded),)]


def check_metrics(model: Days, clock: Clock, operator: Operator) -> None:
    number = f"row_number() OVER (PARTITION BY {', '.join(KEYS)}, metric ORDER BY observed_at) - 1 AS place"
    rows = keyed(rows_of(operator, f"SELECT *, {number} FROM media_metrics"), *KEYS, "metric", "place")
    wanted: dict[Any, dict[str, object]] = {}
    for key, metric, value, moment in model.metrics:
        index = sum((*key, metric, before) in wanted for before in range(DAYS))
        wanted[*key, metric, index] = {"value": value, "observed_at": moment}
    clock.check_rows(wanted, rows, "media_metrics", [*KEYS, "metric", "place"])


def check_scans(model: Days, clock: Clock, operator: Operator) -> None:
    columns = "resource, account_id, surface, complete_at, removals_undecided_since"
    rows = keyed(rows_of(operator, f"SELECT {columns} FROM completed_scans"), "account_id", "surface")
    wanted = {partition: {"complete_at": moment} for partition, moment in model.scans.items()}
    besides = ["resource", "account_id", "surface", "removals_undecided_since"]
    clock.check_rows(wanted, rows, "completed_scans", besides)


CHECKS = (check_scans, check_accounts, check_history, check_metrics)


@dataclass
class Seen:
    """Assert that the days contained every kind of change, so that the test is not empty."""

    message: dict[str, int] = field(default_factory=dict)

    def note(self, model: Days) -> None:
        for name in (*COUNTED, *SUBTLER):
            self.message[name] = self.message.get(name, 0) + model.message[name]

    def check(self, model: Days, wanted: Iterable[str]) -> None:
        assert set(wanted) <= {name for name, count in self.message.items() if count}
        stories = [tuple(status for status, _, _ in periods) for periods in model.statuses.values()]
        assert ("active", "token_expired", "active") in stories
        assert any(account.removed_at for account in model.accounts.values())
        assert any(account.first_seen_at.day for account in model.accounts.values())
        assert any(media.removed_at and media.removed_at.day > media.last_seen_at.day for media in model.media.values())
        assert model.superseded
        assert any(value is not None and moment.day for _, _, value, moment in model.metrics)


# No item returns within these days after two days without it.
MET = {"added", "changed", "removed", "expired", "posts missing", "missing only once"}


# `make test` has the simulation, which compares with a model as well.
@pytest.mark.long
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("shape", ["drift", "mixed"])
def test_the_snapshot_equals_the_model_after_each_day(
    shape: str, serve: Callable[..., SandboxProcess], tmp_path: Path
) -> None:
    service = serve(shape=shape, accounts=40, posts=10, stories=1, seed=73)
    operator = OperatorHere(
        tmp_path / "rig",
        {
            "GRAMHOUSE_BASE_URL": service.url,
            "GRAMHOUSE_API_KEY": KEY,
            "GRAMHOUSE_PAGE_SIZE": str(PAGE_SIZE),
        },
    )
    model, clock, ever, seen = Days(PAGE_SIZE), Clock(), Ever(), Seen()
    for day in range(DAYS):
        service.day(FIRST_DAY + day)
        assert operator.sync()["state"] == "complete"
        runs = operator.ask("SELECT started_at, ended_at FROM runs ORDER BY started_at")
        names = dict(operator.ask("SELECT path, column_name FROM fields WHERE resource = 'media'"))
        model.pass_(day, service.accounts(), service.media(), names, runs[-1][1])
        for check in CHECKS:
            check(model, clock, operator)
        ever.note(model)
        check_media(model, clock, operator, ever)
        check_children(model, clock, operator, ever)
        clock.check_order(runs)
        counted = operator.ask(f"SELECT {', '.join(COUNTED)} FROM runs ORDER BY started_at DESC LIMIT 1")
        assert counted == [tuple(model.message[name] for name in COUNTED)]
        seen.note(model)
    seen.check(model, MET)
