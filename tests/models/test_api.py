import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.api import DEFAULT_PATHS, PagePaths, Unreadable, read_account_page, read_error, read_media_page
from models.erasure import Forgotten, mark_of, without_forgotten

CONTRACT = Path(__file__).parents[1] / "contract"
ACCOUNT: dict[str, Any] = {
    "id": "0B6F7C1E-52a4-4d1b-9a53-2f1d3f0c8e11",
    "ig_username": "lena.bakes",
    "public_id": "k3Xw9QbT5mZa",
    "status": "active",
}


def page(*items: object, cursor: object = None, **more: object) -> bytes:
    return json.dumps({"items": items, "next_cursor": cursor, **more}).encode()


def test_reads_the_published_pages() -> None:
    for path in sorted(CONTRACT.glob("200_*.json")):
        sent = json.loads(path.read_text())["body"]
        is_catalogue = "accounts" in path.stem
        read = (read_account_page if is_catalogue else read_media_page)(json.dumps(sent).encode())
        assert ([*map(json.loads, read.records)], read.next_cursor) == (sent["items"], sent["next_cursor"])
        assert [account.model_dump() for account in read.accounts] == (sent["items"] if is_catalogue else [])
        assert (read.rejected, read.unknown_fields) in (([], frozenset()), ((), frozenset()))


def test_unknown_fields_and_statuses_are_kept() -> None:
    read = read_account_page(page(ACCOUNT, {**ACCOUNT, "nickname": {"a": 1}, "status": "on\nhold"}, total=2))
    assert read.unknown_fields == {"items[].nickname", "total"}
    assert (read.accounts[1].model_extra, read.accounts[1].status) == ({"nickname": {"a": 1}}, "on hold")


# A record, what is wrong with it, and whether its id is known.
REJECTED: tuple[tuple[object, str, bool], ...] = (
    ({**ACCOUNT, "id": "0b6f7c1e52a44d1b9a532f1d3f0c8e11"}, "id", False),
    *(
        ({**ACCOUNT, **wrong}, next(iter(wrong)), True)
        for wrong in ({"ig_username": "a" * 31}, {"ig_username": "a b"}, {"ig_username": "\ud83d"}, {"status": 7})
    ),
    *(({**ACCOUNT, "public_id": wrong}, "public_id", True) for wrong in ("a" * 17, 123456789012)),
    (None, "", False),
    ("x", "", False),
    ({"reason": "a", "payload": "b"}, "", False),
)


@pytest.mark.parametrize(("item", "at", "has_id"), REJECTED)
def test_what_is_no_account_is_rejected_alone(item: object, at: str, *, has_id: bool) -> None:
    read = read_account_page(page(ACCOUNT, item, ACCOUNT))
    assert (len(read.accounts), len(read.records)) == (2, 3)
    [rejected] = read.rejected
    assert (rejected.position, rejected.account_id) == (1, ACCOUNT["id"] if has_id else None)
    assert rejected.reason.startswith(at)
    assert rejected.reason.isprintable()
    assert rejected.payload == json.dumps(item).replace("\\ud83d", "\\ufffd")


def test_an_account_that_mentions_a_forgotten_one_stays() -> None:
    gone = "0b6f7c1e-0000-4d1b-9a53-2f1d3f0c8e11"
    read = read_account_page(page({**ACCOUNT, "id": gone}, {"id": gone}, {**ACCOUNT, "manager": gone}, cursor="next"))
    left = without_forgotten(read, Forgotten("salt", frozenset({mark_of(gone, "salt")})))
    assert ([account.id for account in left.accounts], left.rejected) == ([ACCOUNT["id"]], [])
    assert (left.records, left.next_cursor) == (read.records[2:], "next")


def test_fifty_accounts_are_a_page_and_an_empty_page_is_one_too() -> None:
    assert len(read_account_page(page(*[ACCOUNT] * 50)).records) == 50
    assert read_account_page(page(cursor="on")).next_cursor == "on"
    with pytest.raises(Unreadable, match="items"):
        read_account_page(page(*[ACCOUNT] * 51))


@pytest.mark.parametrize(
    "item", [b"NaN", b"01", b'"\\x41"', b'"a\nb"', b"{},", b"{id:1}", b"[" * 100_000 + b"]" * 100_000]
)
def test_a_media_page_that_is_not_json_is_malformed(item: bytes) -> None:
    """tests/conformance has pages of accounts."""
    with pytest.raises(Unreadable):
        read_media_page(b'{"items":[' + item + b'],"next_cursor":null}')


@pytest.mark.parametrize(
    ("raw", "repaired"),
    [
        (b'{"id":"2","c":"\xe9"}', '{"id":"2","c":"\ufffd"}'),
        (b'{"\xff":"\xc0\xaf"}', '{"\ufffd":"\ufffd\ufffd"}'),
        (rb'{"id":"2","c":"\ud83d \ud83d\ude00 \\ud83d"}', r'{"id":"2","c":"\ufffd \ud83d\ude00 \\ud83d"}'),
        (b'{"id":"2","n":' + b"7" * 5_000 + b"}", '{"id":"2","n":' + "7" * 5_000 + "}"),
    ],
)
def test_what_is_no_character_is_replaced_and_all_else_stays_as_it_is(raw: bytes, repaired: str) -> None:
    read = read_media_page(b'\xef\xbb\xbf{"items": [{"id":"\xc3\xa9"}, ' + raw + b' ,{"id":1e0}],"next_cursor":"on"}')
    assert [one.decode() for one in read.records] == ['{"id":"é"}', repaired, '{"id":1e0}']
    assert (read.next_cursor, read.cursor_fault) == ("on", None)


def test_a_page_lands_with_its_records_and_the_names_of_its_other_members() -> None:
    body = b'{"result": {"media": [{"id": "key"}, 1e0]}, "next_cursor": "on", "a key": "key"}'
    read = read_media_page(body, PagePaths(("/result/media",)))
    assert read.body == b'{"items":[{"id": "key"},1e0],"next_cursor":null,"a key":null,"result":null}'
    again = read_media_page(read.body)
    assert again == replace(read, next_cursor=None)


ITEM = '{"id": "1",  "x": [1.50, "\\u00e9"]}'


def test_the_list_and_the_cursor_of_a_media_page_are_found_and_keep_their_bytes() -> None:
    for body, paths in (
        ('{"data": [%s], "next_cursor": "c"}', DEFAULT_PATHS),
        ('{"media": [%s], "tags": ["a"], "empty": [], "next_cursor": "c"}', DEFAULT_PATHS),
        ('{"items": [%s], "paging": {"next_cursor": "c"}}', DEFAULT_PATHS),
        ('{"result": {"media": [%s]}, "after": "c"}', PagePaths(("/result/media",), ("/after",))),
        ('{"items": [%s], "next_cursor": "c"}', PagePaths(("/media",), ("/after",))),
        ('{"next_cursor":"c", "items":[%s],"x":[],"a[]":[],"a0":{"items":{}},"same":[{}]}', DEFAULT_PATHS),
        ('{"items":[%s], "next_cursor":"c","links":[{"rel":1,"rel":2}],"m":{"x":1,"x":2}}', DEFAULT_PATHS),
    ):
        read = read_media_page((body % ITEM).encode(), paths)
        assert (read.records, read.next_cursor) == ([ITEM.encode()], "c")


CURSORS: tuple[tuple[str, PagePaths, str | None, bool], ...] = (
    ("", DEFAULT_PATHS, "cursor_missing", True),
    (',"total":1,"has_more":false,"paging":{"next":null}', DEFAULT_PATHS, "cursor_missing", True),
    (',"has_more":true', DEFAULT_PATHS, "cursor_missing", False),
    (',"meta":{"paging":{"next_cursor":"c2"}}', DEFAULT_PATHS, "cursor_missing", False),
    (',"links":[{"rel":"self"},{"rel":"next","href":"/more"}]', DEFAULT_PATHS, "cursor_missing", False),
    (',"links":[{"rel":"self"},7],"meta":{"page":{"size":50}}', DEFAULT_PATHS, "cursor_missing", True),
    (',"next_cursor":""', DEFAULT_PATHS, "cursor_empty", False),
    (',"next_cursor":7', DEFAULT_PATHS, "cursor_invalid", False),
    (',"next_cursor":"\xe9"', DEFAULT_PATHS, "cursor_invalid", False),
    (f',"next_cursor":"{"c" * 1025}"', DEFAULT_PATHS, "cursor_invalid", False),
    (',"a":{"next_cursor":"c"},"b":{"next_cursor":null}', DEFAULT_PATHS, "cursor_invalid", False),
    ("", PagePaths(missing_cursor="ends"), None, False),
    ("", PagePaths(missing_cursor="fails"), "cursor_missing", False),
    (',"next_cursor":""', PagePaths(empty_cursor="ends"), None, False),
)


@pytest.mark.parametrize(("rest", "paths", "code", "may_end"), CURSORS)
def test_items_without_a_next_cursor_are_read(rest: str, paths: PagePaths, code: str | None, *, may_end: bool) -> None:
    read = read_media_page(f'{{"items":[{ITEM}]{rest}}}'.encode("latin-1"), paths)
    assert (len(read.records), read.next_cursor) == (1, None)
    fault = read.cursor_fault
    assert (fault and fault.code, fault is not None and fault.may_end) == (code, may_end)


def test_an_empty_list_beside_empty_items_leads_nowhere() -> None:
    fault = read_media_page(b'{"items":[],"after":[]}').cursor_fault
    assert fault is not None
    assert fault.may_end


def test_a_media_page_with_a_duplicate_key_is_malformed() -> None:
    for body, paths in (
        ('{"items":[%s],"items":[],"next_cursor":null}', DEFAULT_PATHS),
        ('{"items":[%s],"it\\u0065ms":[],"next_cursor":null}', DEFAULT_PATHS),
        ('{"data":[%s], "paging":{"next_cursor":"c", "next_cursor":null}}', DEFAULT_PATHS),
        ('{"items":[%s],"a":{"b":{"after":"c","after":null}}}', PagePaths((), ("/a/b/after",))),
    ):
        for item in (ITEM, '"\xff"', f'{ITEM},{{"id":"2","x[]":"[{{"}}'):
            with pytest.raises(Unreadable, match="it contains a duplicate key"):
                read_media_page(body.replace("%s", item).encode("latin-1"), paths)


def test_a_media_page_without_one_list_is_malformed() -> None:
    for rest in ('"a": 1', '"a": [], "b": []', '"a": [{}], "b": [{}]', '"items": {}', '"items": null', '"items": "[]"'):
        with pytest.raises(Unreadable, match=r"no list"):
            read_media_page(f'{{{rest}, "next_cursor": null}}'.encode())


def test_cursors_of_full_length_and_every_character_travel_unchanged() -> None:
    for cursor in ("c" * 1024, "\N{COOKING}" * 1024, "a+b/c=&d%20\n\x00"):
        assert read_account_page(page(cursor=cursor)).next_cursor == cursor
        assert read_media_page(page(cursor=cursor)).next_cursor == cursor


def error(**output: object) -> bytes:
    return json.dumps({"error": {"code": "api_x", "message": "M.", **output}}).encode()


def test_an_error_keeps_its_code_despite_invalid_details() -> None:
    issues = (3, ["i"], [{"code": "i"}], [{"code": "", "path": 7}])
    for details in (None, 3, {}, *({"issues": each} for each in issues)):
        output = read_error(error(details=details, correlation_id=7, hint="new"))
        assert output is not None
        assert (output.code, output.issues) == ("api_x", "")


def test_an_envelope_needs_a_code_and_a_message() -> None:
    for body in (b"", b"<html>", b"{}", b'{"error":"x"}', error(code=""), error(code=4), error(message=None)):
        assert read_error(body) is None
