"""Every item becomes a row with the same values or is rejected, and never fails a merge."""

import json
from collections import Counter
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from connectors.warehouse.storage.connection import Connection
from models.api import read_media_page
from tests.fuzz.json_texts import page, records
from tests.fuzz.profiles import looking
from tests.warehouse.rig import POSTS, Rig, Scan, at, emptied

Said = Counter[str]


def meaning(text: str) -> str:
    """What JSON says, whatever its spaces and escapes: its pairs in their order, its numbers by their value."""

    def number(digits: str) -> str:
        value = Decimal(digits)
        return f"number {value.normalize() if value else 0}"

    def real(digits: str) -> str:
        return (
            f"number {digits.lower()}"
            if float(digits) in (float("inf"), float("-inf"))
            else number(repr(float(digits)))
        )

    def pairs(held: list[tuple[str, Any]]) -> list[Any]:
        return ["object", *held]

    read = json.loads(text, object_pairs_hook=pairs, parse_int=number, parse_float=real)
    return json.dumps(read).replace("\\ud83d", "\\ufffd")


def message(rig: Rig) -> tuple[Said, Said]:
    """What the rows say, and what was rejected."""
    rows = Counter(meaning(text) for (text,) in rig.rows(f"SELECT gh_payload FROM {rig.kept()}"))
    aside = Counter(meaning(text) for (text,) in rig.rows("SELECT payload::VARCHAR FROM core.quarantine"))
    return rows, aside


def merge(connection: Connection, pages: list[list[str]], *, at_once: bool) -> Rig:
    """Land pages as the client reads them, each with ids of its own, and merge them."""
    rig = emptied(connection)
    scan = Scan(POSTS, "scan", at(0))
    for number, held in enumerate(pages, 1):
        body = read_media_page(page(held).encode("utf-8", "surrogatepass"))
        assert body.items == len(held)
        rig.land(scan.page([None] * body.items, at(number), last=number == len(pages), text=body.body))
        if not at_once:
            rig.merge()
    rig.merge()
    return rig


def kinds(rig: Rig) -> set[tuple[Any, ...]]:
    """Every path that was found, and what its column would hold."""
    return set(rig.rows("SELECT resource, path, type FROM core.fields"))


def renumbered(pages: list[list[str]]) -> list[list[str]]:
    """The same records with ids told apart, so that the order in which they come changes none of them."""
    count = 0
    found: list[list[str]] = []
    for held in pages:
        found.append([])
        for record in held:
            count += 1
            own = record.startswith('{"id":"')
            rest = record[record.index('"', 7) + 1 :] if own else ""
            found[-1].append(f'{{"id":"n{count}"{rest}' if own else record)
    return found


def check(connection: Connection, pages: list[list[str]]) -> None:
    pages = renumbered(pages)
    sent = [record for held in pages for record in held]
    expected = Counter(meaning(read_media_page(page([record]).encode()).body[10:-21]) for record in sent)
    first = merge(connection, pages, at_once=True)
    rows, aside = message(first)
    # Nothing is lost, and nothing is there that was not sent. What is rejected twice is rejected once.
    assert set(rows) | set(aside) == set(expected)
    assert rows == Counter({output: number for output, number in expected.items() if output in rows})
    found = kinds(first)
    for turned, at_once in ((pages, False), (pages[::-1], True)):
        again = merge(connection, turned, at_once=at_once)
        assert message(again) == (rows, aside)
        assert kinds(again) == found


@looking(6, share=0.2)
@given(st.lists(st.lists(records, max_size=6), min_size=1, max_size=3))
def test_no_payload_is_lost_or_changed_in_any_batches(opened_rig: Connection, pages: list[list[str]]) -> None:
    check(opened_rig, pages)


MANY = ",".join(f'"k{number}":{number}' for number in range(10_000))
# Each record has fields of its own, so that none widens the columns of another.
CORPUS = (
    '{"id":"1","a":1e400,"b":[-1e400],"like_count":1e400,"timestamp":1e400}',
    '{"id":"1","c":[9223372036854775807,9223372036854775808,18446744073709551616]}',
    '{"id":"1","d":1,"d":"a","d":{"y":1}}',
    '{"id":"1","id":"2"}',
    r'{"id":"1","e":"\ud83d","\ud83d":1}',
    r'{"id":"1","f":"a\u0000b","k\u0000":1,"\u0000":{"y":2}}',
    '{"id":"1","":{"":[{"":1}]}}',
    '{"id":"1","Caption":"x","CAPTION":"y","caption":"z","İ":1,"i̇":2,"ß":1,"ss":2}',
    '{"id":"1","g":' + "[" * 190 + "]" * 190 + "}",
    '{"id":"2","h":' + '{"a":' * 190 + "1" + "}" * 190 + "}",
    r"""{"id":"1","'; DROP TABLE core.media; --":1,"x\" VARCHAR, \"y":2,"$.x":3,"/x":4,"*":5}""",
    '{"id":"1","account_id":"x","media_id":[1],"payload":{"a":1},"_seq":"x","rowid":5}',
    '{"id":"1","timestamp":"2026-02-30T00:00:00Z","i":"0000-01-01T00:00:00Z","j":"2026-12-31T23:59:60Z"}',
    *("null", '"x"', "[1]", "5", "{}", '{"id":null}', '{"id":{}}', '{"id":""}'),
)


def test_hostile_payloads_are_kept(opened_rig: Connection) -> None:
    others = [f'{{"id":"9","{name}":"another"}}' for name in "abcdefghij"]
    check(opened_rig, [*([record] for record in CORPUS), others])


def test_ten_thousand_keys_stop_no_merge(opened_rig: Connection) -> None:
    rig = merge(opened_rig, [[f'{{"id":"1",{MANY}}}']], at_once=True)
    assert rig.value("SELECT count(*) FROM core.media") == 1
