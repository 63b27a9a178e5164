"""Scenarios of many days, decoded from integers: the pages that land, and the expected contents of the warehouse."""

import json
from collections.abc import Iterator
from datetime import timedelta

from models.checkpoint import RunKind
from models.page_commit import PageCommit, RejectedRecord
from models.partition import CATALOGUE, SURFACES, Partition, media
from tests.warehouse.oracle import Event, Oracle, children, extra_type
from tests.warehouse.rig import T0, Item, Rig, Row, Scan, account

TABLES = (
    "core.accounts", "core.account_status_history", "core.media", "core.completed_scans", "core.quarantine",
    "core.fields", "core.media_superseded", "core.media_metrics", "core.media_children", "core.run_counts",
    "ops.missing", "ops.missing_accounts", "ops.seen", "ops.checkpoints", "ops.staging",
)  # fmt: skip
IDS = ("a", "b", "c")
PARTITIONS = (CATALOGUE, *(media(one, surface) for one in IDS for surface in SURFACES))

RUN_KINDS: tuple[RunKind, ...] = ("backfill", "sync", "sync")

# Hypothesis does not draw integers of more than 24 bits evenly.
CODES = 2**24
Story = list[tuple[PageCommit, Event]]


def bits(code: int, first: int, count: int = 1) -> int:
    return (code >> first) & ((1 << count) - 1)


LIKES: tuple[Item, ...] = ({}, {"like_count": None}, {"like_count": 5}, {"like_count": 6})
SAVES: tuple[Item, ...] = ({}, {"stats": {"saves": 3}}, {"stats": {"saves": "4"}}, {"stats": {"saves": "lots"}})
EXTRAS: tuple[Item, ...] = ({}, {"extra": 7}, {"extra": "seven"}, {"extra": {"n": 7}})


def post(number: int, code: int) -> Item:
    """Decode an item: its caption, counts, fields and signature; even ones have a publication time."""
    item: Item = {"id": str(number), "caption": f"v{bits(code, 4 + number)}", "url": f"https://x/?oe={bits(code, 8)}"}
    item |= {**LIKES[bits(code, 17, 2)], **SAVES[bits(code, 19, 2)], **EXTRAS[bits(code, 21, 2)]}
    if bits(code, 23):
        parts = [{"id": f"{number}.{part}", "alt": f"part {part}"} for part in range(1 + bits(code, 5 + number))]
        item["children"] = {"data": parts}
    return item if number % 2 else {**item, "timestamp": (T0 + timedelta(hours=number)).isoformat()}


def page_of(partition: Partition, code: int) -> tuple[list[Item], tuple[int, ...]]:
    """Decode a page: its items, and the positions of the invalid ones."""
    if partition == CATALOGUE:
        items = [
            account(one, name=f"{one}{bits(code, 3 + n)}", status="active" if bits(code, 6 + n) else "token_expired")
            for n, one in enumerate(IDS)
            if bits(code, n)
        ]
        if bits(code, 10):
            items.append(account("b", status="active" if bits(code, 9) else "token_expired"))
        return (items, ()) if bits(code, 11) else ([account("d"), *items], (0,))
    items = [post(number, code) for number in range(4) if bits(code, number)]
    if bits(code, 10):
        items.append(post(0, ~code))
    if bits(code, 11):
        items.insert(len(items) // 2, {"caption": "no id"})
    return items, ()


def tell(rounds: list[tuple[int, list[int]]]) -> Iterator[tuple[PageCommit, Event]]:
    """Decode a scenario: in each round some hours pass, and each partition may land a page, which may close its scan.

    Some of the pages belong to backfills; meanwhile the scans of syncs do not continue.
    """
    scans: dict[tuple[Partition, RunKind], Scan] = {}
    now = T0
    for number, (hours, codes) in enumerate(rounds):
        now += timedelta(hours=hours)
        for partition, code in zip(PARTITIONS, codes, strict=True):
            if bits(code, 14, 2) == 3:
                continue
            now += timedelta(seconds=1)
            run_kind = RUN_KINDS[code % len(RUN_KINDS)]
            if (partition, run_kind) not in scans or scans[partition, run_kind].over:
                name = f"{run_kind} of {partition}#{number}"
                scans[partition, run_kind] = Scan(partition, name, now, run_id=f"run-{number}", run_kind=run_kind)
            scan = scans[partition, run_kind]
            items, broken = page_of(partition, code)
            now += timedelta(seconds=1)
            last = bits(code, 12, 2) in (1, 2)
            aside = tuple(RejectedRecord(place, "broken", compact(items[place])) for place in broken)
            where = (partition.resource, partition.account_id, partition.surface)
            page = scan.checkpoint.pages + 1
            event = Event(where, scan.scan_id, scan.started_at, now, page, tuple(items), last, scan.run_id, broken)
            unknown = ("total",) if bits(code, 16) else ()
            yield scan.page(items, now, last=last, rejected=aside, unknown_fields=unknown), event
            if bits(code, 12, 2) == 3:
                yield scan.abandon(now), Event(where, scan.scan_id, scan.started_at, now, page, None)


def compact(item: object) -> str:
    return json.dumps(item, separators=(",", ":"))


def contents(rig: Rig) -> dict[str, list[Row]]:
    assert rig.value("SELECT count(*) FROM ops.staging") == 0
    return {table: rows_of(rig, table) for table in TABLES}


# A scan that is abandoned without a page needs no merge: its old rows are removed by the next merge.
LAST = """(FROM ops.checkpoints
    QUALIFY row_number() OVER (PARTITION BY resource, account_id, surface, run_kind ORDER BY seq DESC) = 1)"""
IN_FORCE = {
    "ops.checkpoints": LAST,
    "ops.seen": f"ops.seen WHERE scan_id IN (SELECT scan_id FROM {LAST} WHERE state = 'scanning')",
}


def rows_of(rig: Rig, table: str) -> list[Row]:
    """Return a table's rows as text, sorted by column name, because the order of discovered columns does not matter."""
    schema, _, name = table.partition(".")
    named = rig.rows(
        "SELECT column_name FROM duckdb_columns() WHERE database_name = current_database()"
        f" AND schema_name = '{schema}' AND table_name = '{name}' ORDER BY 1"
    )
    columns = [column for (column,) in named]
    # ops.seen may have a row per merge for each item of an unfinished scan; other tables have no duplicates.
    distinct = "DISTINCT" if table == "ops.seen" else ""
    listed = ", ".join(f'"{column}"::VARCHAR AS "{column}"' for column in columns)
    return [tuple(columns), *rig.rows(f"SELECT {distinct} {listed} FROM {IN_FORCE.get(table, table)} ORDER BY ALL")]


def check_against_the_oracle(rig: Rig, oracle: Oracle, *, fields: bool = True) -> None:
    columns = "ig_username, status, status_since, first_seen_at, last_seen_at, removed_at, scan_id"
    assert rig.rows(f"SELECT account_id, {columns} FROM core.accounts ORDER BY 1") == sorted(
        (one, row.ig_username, row.status, row.since, row.first_seen_at, row.last_seen_at, row.removed_at, row.scan)
        for one, row in oracle.accounts.rows.items()
    )
    periods = rig.rows("SELECT * FROM core.account_status_history")
    assert sorted(periods, key=repr) == sorted(map(tuple, oracle.accounts.periods), key=repr)
    found = {
        row[:3]: (json.loads(row[3]), *row[4:])
        for row in rig.rows(
            "SELECT account_id, surface, media_id, gh_payload, first_seen_at, written_at, changed_at,"
            f" content_changed_at, removed_at, removal FROM {rig.kept()}"
        )
    }
    rows = oracle.media.rows
    assert found == {
        key: (
            *(row.payload, row.first_seen_at, row.written_at, row.changed_at, row.content_changed_at),
            *(row.removed_at, row.removal),
        )
        for key, row in rows.items()
    }
    assert rig.value("SELECT count(*) FROM core.media") == len(found)
    columns = "resource, account_id, surface, scan_id, complete_at, removals_undecided_since"
    assert rig.rows(f"SELECT {columns} FROM core.completed_scans ORDER BY ALL") == sorted(
        (*where, scan, oracle.media.closed[where[1:]].complete_at, oracle.media.undecided.get(where[1:]))
        for where, scan in oracle.scans.items()
    )
    assert rig.rows("FROM ops.missing ORDER BY ALL") == sorted(
        (*key, *doubt) for key, doubt in oracle.media.missing.items()
    )
    assert rig.rows("SELECT * FROM ops.missing_accounts ORDER BY 1") == sorted(oracle.accounts.missing.items())
    columns = "reason, resource, account_id, surface, payload, page, position, seen_at"
    assert rig.rows(f"SELECT {columns} FROM core.quarantine ORDER BY ALL") == sorted(
        (reason, *where, text, *first) for (reason, where, text), first in oracle.quarantine.items()
    )
    check_counts(rig, oracle)
    check_history(rig, oracle)
    if fields:
        check_fields(rig, oracle)


def check_counts(rig: Rig, oracle: Oracle) -> None:
    """Check each run's counts, and that their sums agree with the tables."""
    message = documents(rig, "core.run_counts")
    found = {(row["run_id"], name): number for row in message for name, number in row.items() if name != "run_id"}
    assert {key: number for key, number in found.items() if number} == dict(+oracle.counts)
    shown = rig.row(
        "SELECT (SELECT count(*) FROM core.media), (SELECT count(*) FROM core.media WHERE removed_at IS NOT NULL)"
    )
    sums = "SELECT coalesce(sum(added), 0), coalesce(sum(removed) + sum(expired) - sum(returned), 0)"
    assert rig.row(f"{sums} FROM core.run_counts") == shown


def check_history(rig: Rig, oracle: Oracle) -> None:
    versions = rig.rows(
        "SELECT account_id, surface, media_id, valid_from, valid_to, gh_payload"
        f" FROM {rig.kept('core.media_superseded')}"
    )
    message = [(*row[:-1], json.loads(row[-1])) for row in versions]
    assert sorted(message, key=repr) == sorted(oracle.media.superseded, key=repr)
    metrics = rig.rows("SELECT account_id, surface, media_id, metric, value, observed_at FROM core.media_metrics")
    assert sorted(metrics, key=repr) == sorted(oracle.metrics, key=repr)


def documents(rig: Rig, table: str) -> list[Item]:
    return [json.loads(text) for (text,) in rig.rows(f"SELECT to_json(t)::VARCHAR FROM {table} AS t")]


def check_fields(rig: Rig, oracle: Oracle) -> None:
    fields = rig.rows(
        "SELECT resource, path, first_seen_at FROM core.fields WHERE resource LIKE 'media%' AND path <> 'total'"
    )
    assert sorted(fields) == sorted((*where, at) for where, at in oracle.fields.items())
    found = {
        (row["account_id"], row["surface"], row["media_id"]): (row.get("extra"), row.get("extra__n"))
        for row in documents(rig, "core.media")
    }
    assert found == {key: extra(row.payload.get("extra"), oracle.extras) for key, row in oracle.media.rows.items()}
    parts = [
        (row["account_id"], row["surface"], row["media_id"], row["position"], row["child_id"], row["alt"])
        for row in documents(rig, "core.media_children")
    ]
    assert sorted(parts) == sorted(
        (*key, place, child["id"], child["alt"])
        for key, row in oracle.media.rows.items()
        for place, child in enumerate(children(row.payload))
    )


def extra(value: object, kinds: set[str]) -> tuple[object, object]:
    """Return the expected values of the columns `extra` and `extra__n`, given the kinds of all values."""
    type_ = extra_type(kinds)
    inner = value["n"] if isinstance(value, dict) else None
    if value is None or type_ is None:
        return None, inner
    return value if type_ is int or isinstance(value, str) else compact(value), inner
