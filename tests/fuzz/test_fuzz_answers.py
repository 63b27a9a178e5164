# ruff: noqa: E501 - answers on one line
"""Every response is a page or an ApiError, every part of which can be stored in the ledger."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.source.endpoints import ApiRequest, Response, accounts_request, feed_request, read_response
from connectors.source.errors import ApiError
from connectors.warehouse.ingest.landing.frames import as_bytes, frame, frames_of
from models.api import AccountPage, MediaPage
from models.feeds import FEEDS
from models.page_commit import PageCommit, ReceivedPage
from models.partial_json import exact_text
from models.partition import CATALOGUE
from tests.fuzz.json_texts import keys, records, values
from tests.fuzz.profiles import looking

NOW = datetime(2026, 3, 1, tzinfo=UTC)
REQUESTS = (accounts_request(None, 50), feed_request(FEEDS["posts"], "an-id", None, 50))
ACCOUNT = {
    "id": "0b6f7c1e-52a4-4d1b-9a53-2f1d3f0c8e11",
    "ig_username": "a",
    "public_id": "k3Xw9QbT5mZa",
    "status": "active",
}
VALID = (
    json.dumps({"items": [ACCOUNT, {**ACCOUNT, "more": "é😀"}], "next_cursor": "on"}, ensure_ascii=False).encode(),
    json.dumps({"items": [{"id": "1", "x": [1.5, None]}, {}], "next_cursor": None}).encode(),
    json.dumps({"error": {"code": "rate_limited", "message": "M.", "details": {"issues": [{"code": "c", "path": [1]}]}}}).encode(),
)  # fmt: skip
PIECES = (b"", b"\0", b"\xff", b"\xc3\x28", b"{", b"}", b"[", b"]", b",", b":", b'"', b"NaN", b"-Infinity", b"1e400",
          b"\\ud83d", b'"items":', b'"next_cursor":', b'"c"', b"null", b"\xef\xbb\xbf", b"[" * 500, b" " * 99, b"/**/")  # fmt: skip
HEADERS = ("retry-after", "date", "content-type", "location", "x-correlation-id", "content-length")
VALUES = ("", "0", "-1", "1.5", "9" * 400, "1e9", "soon", "٣", "Wed, 31 Dec 9999 23:59:59 GMT", "Wed, 01 Jan 0000 00:00:00 GMT",
          "Sun, 01 Mar 2026 00:00:30 -9999", "http://[::1", "//x:99999/", "\x1b[31m", "01J9ZK4TQ8M3V5X7B2C6D0FGHN", "a" * 9000)  # fmt: skip

requests = st.sampled_from(REQUESTS)
statuses = st.sampled_from([100, 200, 200, 200, 204, 302, 400, 401, 404, 409, 418, 422, 429, 500, 503, 599, 600, 999])
headers = st.dictionaries(st.sampled_from(HEADERS), st.sampled_from(VALUES) | st.text(max_size=40))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    body = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(body)))
        body = body[:begin] + draw(st.sampled_from(PIECES)) + body[begin + draw(st.integers(0, 6)) :]
    return body


def verdict(request: ApiRequest, status: int, headers: Mapping[str, str], body: bytes) -> Response | ApiError:
    try:
        got: Response | ApiError = read_response(request, status, headers, body, now=NOW)
    except ApiError as error:
        got = error
    return got


def assert_kept(got: Response | ApiError, request: ApiRequest, status: int, body: bytes) -> None:
    traced = (got.failure if isinstance(got, ApiError) else got).correlation_id
    assert traced is None or (len(traced) == 26 and traced.isascii() and traced.isalnum())
    if isinstance(got, ApiError):
        failure = got.failure
        assert (failure.operation, failure.status) == (request.operation, status)
        for line, longest in ((failure.code, 64), (failure.message, 200)):
            assert line.isprintable()
            assert len(line) <= longest
        assert got.retry_after is None or got.retry_after >= 0
        json.dumps([failure.code, failure.message]).encode()
        return
    assert status == 200
    read = json.loads(got.page.body, parse_constant=pytest.fail)
    assert (len(read["items"]), read["next_cursor"]) == (got.page.items, got.page.next_cursor)
    is_rewritten = got.page.unknown_fields or (isinstance(got.page, MediaPage) and got.page.cursor_fault)
    is_repaired = body.startswith(b"\xef\xbb\xbf") or b"\\u" in body or not is_json(body)
    assert is_rewritten or is_repaired or read == json.loads(body)
    for record in got.page.rejected:
        assert record.position is not None
        assert is_json(record.payload.encode()) or restored(record.payload) in body
    if isinstance(got.page, AccountPage):
        assert len(got.page.accounts) + len(got.page.rejected) == got.page.items
    else:
        assert all(read["items"][record.position] is None for record in got.page.rejected)


def is_json(body: bytes) -> bool:
    try:
        json.loads(body.decode().removeprefix("\ufeff"), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return False
    return True


def restored(payload: str) -> bytes:
    """Return the bytes of a record that is not JSON."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), payload.encode())


@looking(1000)
@given(
    requests,
    statuses,
    headers,
    st.binary(max_size=60) | mutated() | values.map(lambda text: text.encode("utf-8", "replace")),
)
def test_any_answer_is_a_page_or_an_error(
    request: ApiRequest, status: int, headers: dict[str, str], body: bytes
) -> None:
    got = verdict(request, status, headers, body)
    assert_kept(got, request, status, body)
    if status == 200 and isinstance(got, ApiError):
        assert got.failure.code == "malformed_page"


@looking(200)
@given(requests, st.sampled_from(VALID[:2]), st.integers(0, 200))
def test_a_page_that_was_cut_off_is_refused(request: ApiRequest, body: bytes, length: int) -> None:
    got = verdict(request, 200, {}, body[: min(length, len(body) - 1)])
    assert isinstance(got, ApiError)
    assert got.failure.code == "malformed_page"


@looking(200)
@given(st.lists(records, max_size=4), st.dictionaries(keys, values, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_keys_changes_nothing_and_every_unknown_one_is_recorded(
    held: list[str],
    more: dict[str, str],
    chance: Any,  # noqa: ANN401 - what hypothesis draws
) -> None:
    more = {key: value for key, value in more.items() if key not in ("items", "next_cursor")}
    pairs = [*more.items(), ("items", f"[{','.join(held)}]"), ("next_cursor", '"on"')]
    found = []
    for _ in range(2):
        body = "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs) + "}"
        got = verdict(REQUESTS[1], 200, {}, body.encode())
        assert isinstance(got, Response)
        found.append((got.page.items, got.page.next_cursor, got.page.unknown_fields))
        for request in REQUESTS:
            assert_kept(verdict(request, 200, {}, body.encode()), request, 200, body.encode())
        chance.shuffle(pairs)
    assert found[0] == found[1] == (len(held), "on", frozenset(more))


@pytest.mark.parametrize("key", [rb"\ud83d", rb"a\udc00", b"\xed\xa0\x80", b"\xff"], ids=repr)
@pytest.mark.parametrize("request_", REQUESTS, ids=["accounts", "media"])
def test_a_page_with_an_unknown_key_that_is_no_text_can_land(request_: ApiRequest, key: bytes) -> None:
    body = b'{"items":[],"' + key + b'":1,"next_cursor":"on"}'
    got = verdict(request_, 200, {}, body)
    assert isinstance(got, Response)
    assert got.page.unknown_fields == {exact_text(b'"' + key + b'"')}
    page = ReceivedPage(CATALOGUE, "r", "s", 1, NOW, None, got.page.body, (), tuple(got.page.unknown_fields))
    [(landed, _)] = frames_of(as_bytes(frame(1, PageCommit(page))), 0, summed=True)
    assert landed.commit.page == replace(page, body="")


@pytest.mark.parametrize("item", [b"[" * 100_000 + b"]" * 100_000, b"NaN", b'"\xc0\xaf"'], ids=len)
@pytest.mark.parametrize("request_", REQUESTS, ids=["accounts", "media"])
def test_an_item_that_cannot_be_read_is_rejected(request_: ApiRequest, item: bytes) -> None:
    got = verdict(request_, 200, {}, b'{"items":[' + item + b'],"next_cursor":"on"}')
    assert isinstance(got, Response)
    assert (got.page.next_cursor, [restored(record.payload) for record in got.page.rejected]) == ("on", [item])


@pytest.mark.parametrize("code", [" ", "\0", "\u2028", "\u200b"], ids=ascii)
def test_a_code_without_printable_characters_is_ignored(code: str) -> None:
    got = verdict(REQUESTS[1], 404, {}, json.dumps({"error": {"code": code, "message": "M."}}).encode())
    assert isinstance(got, ApiError)
    assert got.failure.code == "http_404"
