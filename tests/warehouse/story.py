"""Stories of many nights, told by numbers: which pages come when, and what they must leave in a warehouse."""

import json
from collections.abc import Iterator
from datetime import timedelta

from models.landing import Landing, SetAside
from models.partition import CATALOGUE, SURFACES, Partition, media
from tests.warehouse.house import T0, House, Item, Row, Walk, account
from tests.warehouse.oracle import Event, Oracle

TABLES = (
    "core.accounts", "core.account_status_history", "core.media", "core.walks", "core.quarantine", "core.fields",
    "ops.missing", "ops.seen", "ops.checkpoints", "ops.staging",
)  # fmt: skip
IDS = ("a", "b", "c")
PARTITIONS = (CATALOGUE, *(media(one, surface) for one in IDS for surface in SURFACES))

CODES = 2**17
Story = list[tuple[Landing, Event]]


def bits(code: int, first: int, count: int = 1) -> int:
    return (code >> first) & ((1 << count) - 1)


def post(number: int, code: int) -> Item:
    """An item whose caption and signature the code tells; even ones say when they were published."""
    item: Item = {"id": str(number), "caption": f"v{bits(code, 4 + number)}", "url": f"https://x/?oe={bits(code, 8)}"}
    return item if number % 2 else {**item, "timestamp": (T0 + timedelta(hours=number)).isoformat()}


def page_of(partition: Partition, code: int) -> tuple[list[Item], tuple[int, ...]]:
    """The items of a page, and the places of those that are broken."""
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


def tell(rounds: list[tuple[int, list[int]]]) -> Iterator[tuple[Landing, Event]]:
    """Each round some hours pass, then each partition may land a page, which may end its walk or be its last word."""
    walks: dict[Partition, Walk] = {}
    now = T0
    for number, (hours, codes) in enumerate(rounds):
        now += timedelta(hours=hours)
        for partition, code in zip(PARTITIONS, codes, strict=True):
            if bits(code, 14, 2) == 3:
                continue
            now += timedelta(seconds=1)
            if partition not in walks or walks[partition].over:
                walks[partition] = Walk(partition, f"{partition}#{number}", now, run_id=f"run-{number}")
            walk = walks[partition]
            items, broken = page_of(partition, code)
            now += timedelta(seconds=1)
            last = bits(code, 12, 2) in (1, 2)
            aside = tuple(SetAside(place, "broken", compact(items[place])) for place in broken)
            where = (partition.resource, partition.account_id, partition.surface)
            page = walk.checkpoint.pages + 1
            event = Event(where, walk.walk_id, walk.started_at, now, page, tuple(items), last, broken)
            unknown = ("total",) if bits(code, 16) else ()
            yield walk.page(items, now, last=last, set_aside=aside, unknown_fields=unknown), event
            if bits(code, 12, 2) == 3:
                yield walk.abandon(now), Event(where, walk.walk_id, walk.started_at, now, page, None)


def compact(item: object) -> str:
    return json.dumps(item, separators=(",", ":"))


def contents(house: House) -> dict[str, list[Row]]:
    assert house.value("SELECT count(*) FROM ops.staging") == 0
    return {table: house.rows(f"SELECT DISTINCT COLUMNS(*)::VARCHAR FROM {table} ORDER BY ALL") for table in TABLES}


def check_against_the_oracle(house: House, oracle: Oracle) -> None:
    columns = "ig_username, status, status_since, first_seen_at, last_seen_at, removed_at, walk_id"
    assert house.rows(f"SELECT account_id, {columns} FROM core.accounts ORDER BY 1") == sorted(
        (account_id, *row.values()) for account_id, row in oracle.accounts.items()
    )
    periods = house.rows("SELECT * FROM core.account_status_history")
    assert sorted(periods, key=repr) == sorted(map(tuple, oracle.history), key=repr)
    found = {
        row[:3]: (json.loads(row[3]), *row[4:])
        for row in house.rows(
            "SELECT account_id, surface, media_id, payload::VARCHAR, first_seen_at, written_at, changed_at, removed_at,"
            " removal FROM core.media"
        )
    }
    assert found == {key: tuple(row.values()) for key, row in oracle.media.items()}
    assert house.value("SELECT count(*) FROM core.media") == len(found)
    assert house.rows("SELECT * FROM core.walks ORDER BY ALL") == sorted(
        (*where, *walk) for where, walk in oracle.walks.items()
    )
    assert house.rows("SELECT * FROM ops.missing ORDER BY ALL") == sorted(
        (*key, *doubt) for key, doubt in oracle.missing.items()
    )
    columns = "reason, resource, account_id, surface, payload, page, position, seen_at"
    assert house.rows(f"SELECT {columns} FROM core.quarantine ORDER BY ALL") == sorted(
        (reason, *where, text, *first) for (reason, where, text), first in oracle.quarantine.items()
    )
