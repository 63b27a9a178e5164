import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.api import AccountPage, read_account_page, read_error, read_media_page
from models.media_page import DEFAULT_PATHS, PagePaths
from models.partial_json import Unreadable, checked_members, elements, repair

CONTRACT = Path(__file__).parents[1] / "contract"
ACCOUNT: dict[str, Any] = {
    "id": "0B6F7C1E-52a4-4d1b-9a53-2f1d3f0c8e11",
    "ig_username": "lena.bakes",
    "public_id": "k3Xw9QbT5mZa",
    "status": "active",
}
pure = settings(deadline=None, derandomize=True)


def page(*items: object, cursor: object = None, **more: object) -> bytes:
    return json.dumps({"items": items, "next_cursor": cursor, **more}).encode()


def raw_items(body: str) -> list[bytes]:
    return list(elements(checked_members(body.encode())["items"]))


def test_reads_the_published_pages() -> None:
    for path in sorted(CONTRACT.glob("200_*.json")):
        sent = json.loads(path.read_text())["body"]
        read = (read_account_page if "accounts" in path.stem else read_media_page)(json.dumps(sent).encode())
        assert (read.items, read.next_cursor) == (len(sent["items"]), sent["next_cursor"])
        if isinstance(read, AccountPage):
            assert [account.model_dump() for account in read.accounts] == sent["items"]
            assert (read.rejected, read.unknown_fields) == ((), frozenset())
        else:
            assert json.loads(read.body) == sent


def test_unknown_fields_are_named_and_kept() -> None:
    read = read_account_page(page(ACCOUNT, {**ACCOUNT, "nickname": {"a": 1}}, total=2))
    assert read.unknown_fields == {"items[].nickname", "total"}
    assert read.accounts[1].model_extra == {"nickname": {"a": 1}}


WRONG: tuple[Mapping[str, object], ...] = (
    *({"id": "0b6f7c1e52a44d1b9a532f1d3f0c8e11"}, {"ig_username": "a" * 31}, {"ig_username": "a b"}),
    *({"public_id": "a" * 17}, {"public_id": 123456789012}, {"status": "paused"}),
)
NO_ACCOUNTS: tuple[object, ...] = (None, 3, "x", [], {}, {"reason": "a", "payload": "b"})


@pytest.mark.parametrize(
    ("item", "at"),
    [*(({**ACCOUNT, **change}, next(iter(change))) for change in WRONG), *((item, None) for item in NO_ACCOUNTS)],
)
def test_what_is_no_account_is_rejected_alone(item: object, at: str | None) -> None:
    read = read_account_page(page(ACCOUNT, item, ACCOUNT))
    assert (len(read.accounts), read.items) == (2, 3)
    (rejected,) = read.rejected
    assert rejected.position == 1
    assert at in (None, rejected.reason.split(":")[0])
    assert json.loads(rejected.payload) == item
    assert rejected.reason.isprintable()


def test_a_rejected_payload_keeps_its_text() -> None:
    (rejected,) = read_account_page(b'{"items":[ {"id":1e999,  "a": 1.50} ],"next_cursor":null}').rejected
    assert rejected.payload == '{"id":1e999,  "a": 1.50}'


def test_fifty_accounts_are_a_page_and_an_empty_page_is_one_too() -> None:
    assert read_account_page(page(*[ACCOUNT] * 50)).items == 50
    assert read_account_page(page(cursor="on")).next_cursor == "on"
    with pytest.raises(Unreadable, match="items"):
        read_account_page(page(*[ACCOUNT] * 51))


readers = pytest.mark.parametrize("read", [read_account_page, read_media_page])


@readers
@pytest.mark.parametrize(
    "item", [b"NaN", b"01", b'"\\x41"', b'"a\nb"', b"{},", b"{id:1}", b"[" * 100_000 + b"]" * 100_000]
)
def test_a_page_that_is_not_json_is_malformed(read: Callable[[bytes], object], item: bytes) -> None:
    """tests/conformance has other pages."""
    with pytest.raises(Unreadable):
        read(b'{"items":[' + item + b'],"next_cursor":null}')


@pytest.mark.parametrize(
    "raw", [b'{"id":"2","c":"\xe9"}', b'{"id":"2","c":"\xed\xa0\xbd"}', b'{"id":"\xff"}', b'"\xc0\xaf"']
)
def test_a_media_item_that_is_not_utf_8_becomes_a_text_and_its_page_keeps_its_bytes(raw: bytes) -> None:
    body = b'{"items":[{"id":"\xc3\xa9"}, ' + raw + b' ,{"id":"3"}],"next_cursor":"on"}'
    read = read_media_page(body)
    assert (read.items, read.next_cursor, read.cursor_fault, read.received) == (3, "on", None, body)
    first, text, last = json.loads(read.body)["items"]
    assert (first, text, last) == ({"id": "é"}, raw.decode(errors="backslashreplace"), {"id": "3"})


def test_half_a_character_hides_nothing_and_an_integer_may_have_any_length() -> None:
    half, long = rb'{"id":"2","c":"\ud83d \ud83d\ude00"}', b'{"id":"2","n":' + b"7" * 5_000 + b"}"
    read = read_media_page(b'{"items":[{"id":1}, ' + half + b"," + long + b'],"next_cursor":null}')
    assert raw_items(read.body) == [b'{"id":1}', half, long]


def test_an_account_that_is_not_utf_8_is_rejected_alone_with_its_id() -> None:
    known, other = json.dumps(ACCOUNT).encode(), b'{"id":"\xff"}'
    broken = known.replace(b'"lena.bakes"', b'"lena.\xe9"')
    read = read_account_page(b'{"items":[' + b",".join([known, broken, other, known]) + b'],"next_cursor":"on","n":1}')
    assert ([one.id for one in read.accounts], read.items, read.next_cursor) == ([ACCOUNT["id"]] * 2, 4, "on")
    assert [(one.position, one.account_id) for one in read.rejected] == [(1, ACCOUNT["id"]), (2, None)]
    assert read.rejected[0].payload == known.decode().replace("lena.bakes", "lena.\\xe9")
    assert read.unknown_fields == {"n"}


ITEM = '{"id": "1",  "x": [1.50, "\\u00e9"]}'


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ('{"data": [%s], "next_cursor": "c"}', DEFAULT_PATHS),
        ('{"media": [%s], "tags": ["a"], "empty": [], "next_cursor": "c"}', DEFAULT_PATHS),
        ('{"items": [%s], "paging": {"next_cursor": "c"}}', DEFAULT_PATHS),
        ('{"result": {"media": [%s]}, "after": "c"}', PagePaths(("/result/media",), ("/after",))),
        ('{"items": [%s], "next_cursor": "c"}', PagePaths(("/media",), ("/after",))),
    ],
)
def test_the_list_and_the_cursor_of_a_media_page_are_found_and_keep_their_bytes(body: str, paths: PagePaths) -> None:
    page = read_media_page((body % ITEM).encode(), paths)
    assert (page.items, page.next_cursor) == (1, "c")
    assert raw_items(page.body) == [ITEM.encode()]


@pytest.mark.parametrize(
    ("rest", "code", "may_end"),
    [
        ("", "cursor_missing", True),
        (',"total":1,"has_more":false,"paging":{"next":null}', "cursor_missing", True),
        (',"has_more":true', "cursor_missing", False),
        (',"meta":{"paging":{"next_cursor":"c2"}}', "cursor_missing", False),
        (',"links":[{"rel":"self"},{"rel":"next","href":"/more"}]', "cursor_missing", False),
        (',"links":[{"rel":"self"},7],"meta":{"page":{"size":50}}', "cursor_missing", True),
        (',"next_cursor":""', "cursor_empty", False),
        (',"next_cursor":7', "cursor_invalid", False),
        (',"next_cursor":"\xe9"', "cursor_invalid", False),
        (f',"next_cursor":"{"c" * 1025}"', "cursor_invalid", False),
        (',"a":{"next_cursor":"c"},"b":{"next_cursor":null}', "cursor_invalid", False),
    ],
)
def test_the_items_of_a_page_without_a_usable_cursor_are_read(rest: str, code: str, *, may_end: bool) -> None:
    read = read_media_page(f'{{"items":[{ITEM}]{rest}}}'.encode("latin-1"))
    assert (read.items, read.next_cursor) == (1, None)
    assert read.cursor_fault is not None
    assert (read.cursor_fault.code, read.cursor_fault.may_end) == (code, may_end)


@pytest.mark.parametrize(
    ("rest", "paths", "code"),
    [
        ("", PagePaths(missing_cursor="ends"), None),
        ("", PagePaths(missing_cursor="fails"), "cursor_missing"),
        (',"a":{"next_cursor":"c"},"b":{"next_cursor":null}', PagePaths(missing_cursor="ends"), "cursor_invalid"),
        (',"next_cursor":""', PagePaths(missing_cursor="ends"), "cursor_empty"),
        (',"next_cursor":""', PagePaths(empty_cursor="ends"), None),
    ],
)
def test_settings_say_which_page_is_the_last(rest: str, paths: PagePaths, code: str | None) -> None:
    fault = read_media_page(f'{{"items":[{ITEM}]{rest}}}'.encode(), paths).cursor_fault
    assert (fault and fault.code) == code
    assert fault is None or not fault.may_end


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ('{"items":[%s],"items":[%s],"next_cursor":null}', DEFAULT_PATHS),
        ('{"items":[%s],"items":[],"next_cursor":null}', DEFAULT_PATHS),
        ('{"items":[%s],"it\\u0065ms":[],"next_cursor":null}', DEFAULT_PATHS),
        ('{"items":[%s],"next_cursor":"c","next_cursor":null}', DEFAULT_PATHS),
        ('{"data":[%s],"data":[%s],"next_cursor":null}', DEFAULT_PATHS),
        ('{"data":[%s], "paging":{"next_cursor":"c", "next_cursor":null}}', DEFAULT_PATHS),
        ('{"data":[%s],"paging":{"next_cursor":"c"},"paging":{"next_cursor":null}}', DEFAULT_PATHS),
        ('{"result":{"media":[%s],"media":[%s]},"next_cursor":null}', PagePaths(("/result/media",))),
        ('{"a":{"b":{"media":[%s],"media":[%s]}},"next_cursor":null}', PagePaths(("/a/b/media",))),
        ('{"a":{"b":{"media":[%s]},"b":{"media":[]}},"next_cursor":null}', PagePaths(("/a/b/media",))),
        ('{"result":{"media":[%s]},"result":{"media":[%s]},"next_cursor":null}', PagePaths(("/result/media",))),
        ('{"items":[%s],"a":{"b":{"after":"c","after":null}}}', PagePaths((), ("/a/b/after",))),
    ],
)
def test_a_media_page_with_a_duplicate_key_is_malformed(body: str, paths: PagePaths) -> None:
    for item in (ITEM, '"\xff"', f'{ITEM},{{"id":"2","x[]":"[{{"}}'):
        with pytest.raises(Unreadable, match="it contains a duplicate key"):
            read_media_page(body.replace("%s", item).encode("latin-1"), paths)


@pytest.mark.parametrize(
    "body",
    [
        '{"items":[{"id":"1","a":1,"a":2}],"next_cursor":null}',
        '{"data":[{"id":"1","data":{"data":[]},"items":[]}],"next_cursor":null}',
        '{"items":[{"id":"1","items":[],"next_cursor":"c"}],"next_cursor":null,"x":[],"a[]":[],"a0":{"items":{}}}',
        '{"items":[{"id":"1"}],"same":[{"id":"1"}],"next_cursor":null}',
        '{"items":[{"id":"1"}],"links":[{"rel":"self","rel":"self"}],"m":{"x":1,"x":2},"next_cursor":null}',
    ],
)
def test_keys_that_are_equal_elsewhere_on_a_media_page_are_no_duplicates(body: str) -> None:
    assert read_media_page(body.encode()).items == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"next_cursor": null}',
        b'{"a": [], "b": [], "next_cursor": null}',
        b'{"a": [{}], "b": [{}], "next_cursor": null}',
    ],
)
def test_a_media_page_without_one_list_is_malformed(body: bytes) -> None:
    with pytest.raises(Unreadable, match="no list of items found"):
        read_media_page(body)


@readers
def test_cursors_of_full_length_and_every_character_travel_unchanged(
    read: Callable[[bytes], Any],
) -> None:
    for cursor in ("c" * 1024, "\N{COOKING}" * 1024, "a+b/c=&d%20\n\x00", "\N{REPLACEMENT CHARACTER}"):
        assert read(page(cursor=cursor)).next_cursor == cursor


@pure
@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_repair_recognizes_the_same_surrogate_pairs_as_python(text: str) -> None:
    body = json.dumps(text).encode()
    whole = json.loads(body)
    assert json.loads(repair(body)) == re.sub("[\ud800-\udfff]", "\ufffd", whole)


def error(**output: object) -> bytes:
    return json.dumps({"error": {"code": "api_x", "message": "M.", **output}}).encode()


@pytest.mark.parametrize(
    "details",
    [None, 3, {}, {"issues": [{"code": "", "path": []}]}, {"issues": [{"code": "i", "path": [-1]}]}],
)
def test_an_error_keeps_its_code_despite_invalid_details(details: object) -> None:
    output = read_error(error(details=details, correlation_id=7, hint="new"))
    assert output is not None
    assert (output.code, list(output.issues)) == ("api_x", [])


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{}", b'{"error":"x"}', error(code=""), error(code=4), error(message=None)]
)
def test_an_envelope_needs_a_code_and_a_message(body: bytes) -> None:
    assert read_error(body) is None
