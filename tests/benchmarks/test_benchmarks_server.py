"""The bench server and the fetch alone: everything once, and nothing counted but what was asked for."""

import asyncio
import json

import pytest

from benchmarks.beside import ServerSpent, serving
from benchmarks.floor import fetch
from benchmarks.pages import Service
from benchmarks.server import Bench

PATH = "/api/v1/accounts/00000001-0000-4000-8000-000000000001/media"


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_the_floor_fetches_all_of_it() -> None:
    with serving(60, 120) as server:
        before = server.spent()
        fetched = asyncio.run(fetch(server.url, 8))
        asked = server.spent() - before

    service = Service(60, 120)
    pages = [service.catalogue(cursor) for cursor in (None, "p50")]
    pages += [service.media(n, cursor) for n in range(60) for cursor in (None, "p50", "p100")]
    assert fetched == {"pages": 2 + 60 * 3, "bytes": sum(len(page or b"") for page in pages)}
    assert asked.requests == fetched["pages"]
    assert asked.refused == asked.too_early == 0


def test_asking_what_was_spent_is_not_counted() -> None:
    bench = Bench(Service(2, 60), 0, None)
    bench.answer(PATH)
    bench.answer("/spent")
    spent = json.loads(bench.answer("/spent").partition(b"\r\n\r\n")[2])

    assert ServerSpent(**spent).requests == 1


def test_who_is_limited_and_comes_again_at_once_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("benchmarks.server.time.monotonic", lambda: now)
    bench = Bench(Service(2, 60), 0, 2)

    assert [status(bench.answer(PATH)) for _ in range(3)] == [200, 200, 429]
    now = 100.9
    assert status(bench.answer(PATH)) == 429
    now = 101.95
    assert status(bench.answer(PATH)) == 200
    other = PATH.replace("00000001-", "00000000-")
    assert status(bench.answer(other)) == 200
    spent = json.loads(bench.answer("/spent").partition(b"\r\n\r\n")[2])
    assert (spent["refused"], spent["too_early"]) == (2, 1)


def test_a_refused_cursor_is_no_page() -> None:
    assert status(Bench(Service(2, 60), 0, None).answer(f"{PATH}?cursor=p999")) == 422
