"""The replies of the faults, instead of the requested page."""

import gzip
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

from tests.faults.fake_api import MakeReply, PageRequest, api_error, cursor_to
from tests.faults.replies import TRACED, Page, Reply, rendered
from tests.faults.world import CATALOGUE, Item

_PROXY = b"<html>\r\n<head><title>Sorry</title></head><body><h1>Not now</h1></body>\r\n</html>\r\n"
_DEEP = 100_000


def error_reply(status: int, code: str, **headers: str) -> MakeReply:
    return lambda _: api_error(status, code, **headers)


def html(status: int, **headers: str) -> MakeReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Reply(status, _PROXY, {"content-type": "text/html", **named})


def redirect(_: PageRequest) -> Reply:
    return Reply(307, b"", TRACED | {"location": "https://elsewhere.example/login"})


def nothing(_: PageRequest) -> Reply:
    return Reply(204)


def untraced_error(_: PageRequest) -> Reply:
    body = b'{"error":{"code":"api_internal_error","message":"No."}}'
    return Reply(500, body, {"content-type": "application/json"})


def limited_until(seconds: float, *, skew: float = 0.0) -> MakeReply:
    """Rate limited until a date; `skew`: by how much the API's clock is ahead, as its Date header shows."""

    def serve(request: PageRequest) -> Reply:
        api_time = request.now + timedelta(seconds=skew)
        until = format_datetime(api_time + timedelta(seconds=seconds), usegmt=True)
        date = {"date": format_datetime(api_time, usegmt=True)} if skew else {}
        reply = api_error(429, "rate_limited", retry_after=until)
        return Reply(429, reply.body, reply.headers | date, code="rate_limited")

    return serve


def broken(error: Exception) -> Reply:
    return Reply(error=error)


def streamed(pieces: Callable[[], AsyncIterator[bytes]], **headers: str) -> MakeReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Reply(headers=TRACED | named, pieces=pieces)


def cut_body(request: PageRequest) -> Reply:
    body = request.page().body

    async def half() -> AsyncIterator[bytes]:
        yield body[: len(body) // 2]
        raise ConnectionResetError(104, "reset by peer")

    return Reply(pieces=half)


def cut_gzip(request: PageRequest) -> Reply:
    return Reply(body=gzip.compress(request.page().body)[:-8], headers=TRACED | {"content-encoding": "gzip"})


def id_is(written: bytes, stored: str) -> MakeReply:
    """Serve a record whose id is not JSON, and is `stored` in quarantine; the others land."""

    def serve(request: PageRequest) -> Reply:
        first, *others = request.items
        text = json.dumps(first, ensure_ascii=False).replace(json.dumps(first["id"]), "{}", 1)
        record = text.encode().replace(b"{}", written, 1)
        body = b", ".join([record, *(json.dumps(one, ensure_ascii=False).encode() for one in others)])
        body = b'{"items": [' + body + b'], "next_cursor": ' + json.dumps(request.next_cursor).encode() + b"}"
        return request.page([text.replace("{}", stored, 1), *others], body=body)

    return serve


invalid_utf8 = id_is(b'"\xc3\x28\xff"', r'"\xc3(\xff"')
nan = id_is(b"NaN", "NaN")
deep_json = id_is(b"[" * _DEEP + b"]" * _DEEP, "[" * _DEEP + "]" * _DEEP)


def raw_characters(request: PageRequest) -> Reply:
    """Serve a page with line breaks in its strings, which JSON does not allow, and a comma after each element."""
    items = [{**item, "note": "a\nb"} for item in request.items]
    body = rendered(items, request.next_cursor).replace(rb"\n", b"\n").replace(b"}", b",}").replace(b"]", b",]")
    return request.page(items, body=body)


def cut_json(request: PageRequest) -> Reply:
    return Reply(body=request.page().body[:-1])


def empty_body(_: PageRequest) -> Reply:
    return Reply()


def items_are(value: object) -> MakeReply:
    return lambda request: Reply(body=json.dumps({"items": value, "next_cursor": request.next_cursor}).encode())


def without_cursor(body: Callable[[list[Item]], bytes]) -> MakeReply:
    """Serve a page without a usable cursor; it lands if it is a page of media."""

    def serve(request: PageRequest) -> Reply:
        page = None if request.where == CATALOGUE else Page(request.items, None, is_last=False)
        return Reply(body=body(request.items), page=page)

    return serve


no_cursor = without_cursor(lambda items: json.dumps({"items": items}).encode())


def cursor_is(cursor: object) -> MakeReply:
    return without_cursor(lambda items: rendered(items, cursor))


def repeated(request: PageRequest) -> Reply:
    return request.page(next_cursor=request.cursor or cursor_to(request.index, "same"))


def cycle(request: PageRequest) -> Reply:
    """Lead from this page to itself with cursor a, then b, then a again."""
    return request.page(next_cursor=cursor_to(request.index, "b" if request.mark == "a" else "a"))


def typed(kind: str | None) -> MakeReply:
    headers = {name: value for name, value in TRACED.items() if name != "content-type"}
    return lambda request: request.page(headers=headers | ({"content-type": kind} if kind else {}))


def untraced(request: PageRequest) -> Reply:
    return request.page(headers={"content-type": "application/json"})


def marked(request: PageRequest) -> Reply:
    return request.page(body=b"\xef\xbb\xbf" + request.page().body)


def _older(item: Item, request: PageRequest) -> Item:
    field = "ig_username" if request.where == CATALOGUE else "caption"
    return {**item, field: "an.older.one"}


def _neighbour(request: PageRequest) -> list[Item]:
    pages = request.world[request.where]
    return [dict(item) for item in pages[request.index - 1 if request.index else 1]]


def twice_in_page(request: PageRequest) -> Reply:
    """Serve an older version of an item before the item."""
    return request.page([_older(request.items[-1], request), *request.items])


def twice_across(request: PageRequest) -> Reply:
    """Serve an older version of an item of the next page or the one before."""
    return request.page([*request.items, _older(_neighbour(request)[0], request)])


def moved_on(request: PageRequest) -> Reply:
    """Serve the last item of the page before again, as if a new item had moved it to this page."""
    return request.page([_neighbour(request)[-1], *request.items])


def moved_back(request: PageRequest) -> Reply:
    """Omit this page's first item, as if a removal had moved it to the page before."""
    return request.page(request.items[1:])


def empty(request: PageRequest, pages: int = 1) -> Reply:
    """Serve `pages` pages without items before the requested one."""
    if request.mark == "full":
        return request.page()
    passed = len(request.mark) + 1
    return request.page([], next_cursor=cursor_to(request.index, "full" if passed == pages else "e" * passed))


def fifty_one(request: PageRequest) -> Reply:
    """Serve 51 items, which the API's contract forbids for accounts only."""
    items = [*request.items, *[request.items[-1]] * (51 - len(request.items))]
    return request.page(items) if request.where != CATALOGUE else Reply(body=rendered(items, request.next_cursor))


def unknown_fields(request: PageRequest) -> Reply:
    items = [{**item, "nobody_knows": {"Ünïcode key": [1, None, "x"]}} for item in request.items]
    body = json.dumps({"total": 3, "items": items, "next_cursor": request.next_cursor}).encode()
    return request.page(items, body=body)


def no_record(request: PageRequest) -> Reply:
    """Add a record without an id, one that is not an object, and a null."""
    nameless: dict[str, Any] = {name: value for name, value in request.items[0].items() if name != "id"}
    return request.page([nameless, *request.items, "no object", None])


def half_an_emoji(request: PageRequest) -> Reply:
    """Serve a caption with a lone surrogate; for an account, an unknown field with one."""
    field = "note" if request.where == CATALOGUE else "caption"
    cut = [{**request.items[0], field: "cut: \ud83d"}, *request.items[1:]]
    repaired = [{**request.items[0], field: "cut: \ufffd"}, *request.items[1:]]
    return request.page(repaired, body=json.dumps({"items": cut, "next_cursor": request.next_cursor}).encode())
