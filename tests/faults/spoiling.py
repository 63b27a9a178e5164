"""How each fault is served: what comes in place of the page that was asked for."""

import gzip
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

from tests.faults.answers import TRACED, Answer, rendered
from tests.faults.player import Scene, Serve, cursor_to, refusal
from tests.faults.world import CATALOGUE, Item

_PROXY = b"<html>\r\n<head><title>Sorry</title></head><body><h1>Not now</h1></body>\r\n</html>\r\n"
_DEEP = 100_000


def refused_late(status: int, code: str, **headers: str) -> Serve:
    return lambda _: refusal(status, code, **headers)


def html(status: int, **headers: str) -> Serve:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Answer(status, _PROXY, {"content-type": "text/html", **named})


def redirect(_: Scene) -> Answer:
    return Answer(307, b"", TRACED | {"location": "https://elsewhere.example/login"})


def nothing(_: Scene) -> Answer:
    return Answer(204)


def untraced_error(_: Scene) -> Answer:
    body = b'{"error":{"code":"api_internal_error","message":"No."}}'
    return Answer(500, body, {"content-type": "application/json"})


def limited_until(seconds: float, *, skew: float = 0.0) -> Serve:
    """Rate limited until a date; `skew`: so far the service's clock, of which its Date header tells, is ahead."""

    def serve(scene: Scene) -> Answer:
        theirs = scene.now + timedelta(seconds=skew)
        until = format_datetime(theirs + timedelta(seconds=seconds), usegmt=True)
        date = {"date": format_datetime(theirs, usegmt=True)} if skew else {}
        answer = refusal(429, "rate_limited", retry_after=until)
        return Answer(429, answer.body, answer.headers | date, code="rate_limited")

    return serve


def broken(error: Exception) -> Answer:
    return Answer(error=error)


def streamed(pieces: Callable[[], AsyncIterator[bytes]], **headers: str) -> Serve:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Answer(headers=TRACED | named, pieces=pieces)


def cut_body(scene: Scene) -> Answer:
    body = scene.page().body

    async def half() -> AsyncIterator[bytes]:
        yield body[: len(body) // 2]
        raise ConnectionResetError(104, "reset by peer")

    return Answer(pieces=half)


def cut_gzip(scene: Scene) -> Answer:
    return Answer(body=gzip.compress(scene.page().body)[:-8], headers=TRACED | {"content-encoding": "gzip"})


def invalid_utf8(scene: Scene) -> Answer:
    return Answer(body=scene.page().body.replace(b'"id"', b'"\xc3\x28\xff": 1, "id"', 1))


def deep_json(scene: Scene) -> Answer:
    deep = b"[" * _DEEP + b"]" * _DEEP
    return Answer(body=scene.page().body.replace(b'"id"', b'"deep": ' + deep + b', "id"', 1))


def cut_json(scene: Scene) -> Answer:
    return Answer(body=scene.page().body[:-1])


def nan(scene: Scene) -> Answer:
    return Answer(body=scene.page().body.replace(b'"id"', b'"count": NaN, "id"', 1))


def empty_body(_: Scene) -> Answer:
    return Answer()


def items_are(value: object) -> Serve:
    return lambda scene: Answer(body=json.dumps({"items": value, "next_cursor": scene.next_cursor}).encode())


def no_cursor(scene: Scene) -> Answer:
    return Answer(body=json.dumps({"items": scene.items}).encode())


def cursor_is(cursor: object) -> Serve:
    return lambda scene: Answer(body=rendered(scene.items, cursor))


def repeated(scene: Scene) -> Answer:
    return scene.page(next_cursor=scene.cursor or cursor_to(scene.index, "same"))


def cycle(scene: Scene) -> Answer:
    """From this page to itself by one cursor, by another, and by the first again."""
    return scene.page(next_cursor=cursor_to(scene.index, "b" if scene.mark == "a" else "a"))


def typed(kind: str | None) -> Serve:
    headers = {name: value for name, value in TRACED.items() if name != "content-type"}
    return lambda scene: scene.page(headers=headers | ({"content-type": kind} if kind else {}))


def untraced(scene: Scene) -> Answer:
    return scene.page(headers={"content-type": "application/json"})


def marked(scene: Scene) -> Answer:
    return scene.page(body=b"\xef\xbb\xbf" + scene.page().body)


def _older(item: Item, scene: Scene) -> Item:
    field = "ig_username" if scene.where == CATALOGUE else "caption"
    return {**item, field: "an.older.one"}


def _neighbour(scene: Scene) -> list[Item]:
    pages = scene.world[scene.where]
    return [dict(item) for item in pages[scene.index - 1 if scene.index else 1]]


def twice_in_page(scene: Scene) -> Answer:
    """An older version of an item, and then the item."""
    return scene.page([_older(scene.items[-1], scene), *scene.items])


def twice_across(scene: Scene) -> Answer:
    """An older version of an item that stands on the next page or the one before, too."""
    return scene.page([*scene.items, _older(_neighbour(scene)[0], scene)])


def moved_on(scene: Scene) -> Answer:
    """Something new above pushed the last item of the page before onto this one: it comes twice."""
    return scene.page([_neighbour(scene)[-1], *scene.items])


def moved_back(scene: Scene) -> Answer:
    """Something above vanished, and this page's first item went where the scan has been: it does not come at all."""
    return scene.page(scene.items[1:])


def empty(scene: Scene, pages: int = 1) -> Answer:
    """So many pages without items before the one that was asked for."""
    if scene.mark == "full":
        return scene.page()
    passed = len(scene.mark) + 1
    return scene.page([], next_cursor=cursor_to(scene.index, "full" if passed == pages else "e" * passed))


def fifty_one(scene: Scene) -> Answer:
    """More than fifty is against the contract of accounts; of media it says nothing."""
    items = [*scene.items, *[scene.items[-1]] * (51 - len(scene.items))]
    return scene.page(items) if scene.where != CATALOGUE else Answer(body=rendered(items, scene.next_cursor))


def unknown_fields(scene: Scene) -> Answer:
    items = [{**item, "nobody_knows": {"Ünïcode key": [1, None, "x"]}} for item in scene.items]
    body = json.dumps({"total": 3, "items": items, "next_cursor": scene.next_cursor}).encode()
    return scene.page(items, body=body)


def no_record(scene: Scene) -> Answer:
    """Amid the others one without an id, one that is no object, and nothing."""
    nameless: dict[str, Any] = {name: value for name, value in scene.items[0].items() if name != "id"}
    return scene.page([nameless, *scene.items, "no object", None])


def half_an_emoji(scene: Scene) -> Answer:
    """A caption cut amid an emoji; of an account it would be a field nobody knows."""
    field = "note" if scene.where == CATALOGUE else "caption"
    cut = [{**scene.items[0], field: "cut: \ud83d"}, *scene.items[1:]]
    mended = [{**scene.items[0], field: "cut: \ufffd"}, *scene.items[1:]]
    return scene.page(mended, body=json.dumps({"items": cut, "next_cursor": scene.next_cursor}).encode())
