"""The benchmark server and the fetch alone: every page is fetched once, and the server counts requests exactly."""

import asyncio
import json

import pytest

from benchmarks.api.server import BenchServer, ServerOptions
from benchmarks.api.server_process import start_server
from benchmarks.api.synthetic_api import SyntheticApi
from benchmarks.candidates.floor import fetch

PATH = "/api/v1/accounts/00000001-0000-4000-8000-000000000001/media"
OTHER = PATH.replace("00000001-", "00000000-")


def test_the_floor_fetches_everything() -> None:
    with start_server(60, 120) as server:
        before = server.usage()
        fetched = asyncio.run(fetch(server.url, 8))
        usage = server.usage() - before

    api = SyntheticApi(60, 120)
    pages = [api.catalogue(cursor) for cursor in (None, "p50")]
    pages += [api.media(n, cursor) for n in range(60) for cursor in (None, "p50", "p100")]
    assert fetched == {"pages": 2 + 60 * 3, "bytes": sum(len(page or b"") for page in pages)}
    assert usage.requests == fetched["pages"]
    assert usage.refused == usage.too_early == 0


def test_requests_before_the_end_of_retry_after_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("benchmarks.api.server.time.monotonic", lambda: clock[0])
    server = BenchServer(ServerOptions(2, 60, per_second=2))
    got = []
    for clock[0], path in ((100.0, PATH), (100.0, PATH), (100.0, PATH), (100.9, PATH), (101.95, PATH), (101.95, OTHER)):
        got.append(int(server.respond(path).split(b" ", 2)[1]))
    assert got == [200, 200, 429, 429, 200, 200]
    # A request for the usage is not counted.
    usage = [json.loads(server.respond("/usage").partition(b"\r\n\r\n")[2]) for _ in range(2)][1]
    assert (usage["requests"], usage["refused"], usage["too_early"]) == (6, 2, 1)
