"""Prefect's server of `up` and `demo` serves programs of this machine and its own pages, and no other web page."""

import json
import socket
from collections.abc import Mapping
from contextlib import closing, nullcontext
from http.client import HTTPConnection
from itertools import product

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.e2e.prefect.conftest import Up
from tests.prefect_api import PUBLIC

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]

# A page of this name resolves to 127.0.0.1 (DNS rebinding). `PORT` is the server's port.
EVIL = "evil.example"
HOSTS = ("127.0.0.1:PORT", "localhost:PORT", "LOCALHOST", "[::1]:PORT", "127.0.0.1:9", "prefect.example")
WRONG_HOSTS = (
    *(f"{EVIL}:PORT", "127.0.0.1.evil.example:PORT", "127.0.0.1@evil.example", "x.prefect.example"),
    *("127.0.0.1:PORT:PORT", "0.0.0.0:PORT", ""),
)
WRONG_ORIGINS = (
    *("https://evil.example", "null", "", "http://localhost:9", "http://127.0.0.1:PORT.evil.example"),
    "http://evil.example/127.0.0.1:PORT",
)
PATHS = ("/", "/dashboard", "/api/csrf-token?client=x", "/gramhouse/report")
FLOWS = "/api/flows/filter"


@pytest.fixture
def port(up: Up) -> int:
    return up.port


def ask(
    port: int, headers: Mapping[str, str], method: str = "GET", path: str = "/api/health", body: str = ""
) -> tuple[int, str]:
    """Send a request with exactly these headers."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": "127.0.0.1:PORT", **headers}.items():
            connection.putheader(name, value.replace("PORT", str(port)))
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body.encode() or None)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_names_of_this_machine_the_own_pages_and_programs_are_served(port: int) -> None:
    # With an origin, as Prefect's own UI does.
    for host, origin in product(HOSTS, ({}, {"Origin": "http://localhost:PORT"})):
        assert ask(port, {"Host": host, **origin}) == (200, "true")
    for headers in ({}, {"Origin": "http://127.0.0.1:PORT"}, {"Origin": PUBLIC}):
        assert ask(port, headers, "POST", FLOWS, "{}")[0] == 200
    preflight = {"Origin": "http://localhost:PORT", "Access-Control-Request-Method": "POST"}
    assert ask(port, preflight, "OPTIONS", FLOWS)[0] == 200
    for own in ("same-origin", "none"):
        assert ask(port, {"Sec-Fetch-Site": own, "Sec-Fetch-Dest": "empty"})[0] == 200
    # No run has written it yet, or one has.
    status, page = ask(port, {}, path="/gramhouse/report")
    assert (status, "There is no report yet" in page) in {(404, True), (200, False)}


def test_a_rebound_name_is_refused(port: int) -> None:
    for host, forwarded in product(WRONG_HOSTS, ({}, {"X-Forwarded-Host": "127.0.0.1:PORT", "Forwarded": "host=::1"})):
        for path in (*PATHS, f"http://127.0.0.1:{port}/api/health"):
            assert ask(port, {"Host": host, **forwarded}, path=path)[0] == 400, (host, path)
        # A page of that name has the same origin.
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin", **forwarded}
        assert ask(port, headers, "POST", "/api/block_documents/filter", "{}")[0] == 400
    # The target of a request line does not replace its host.
    assert ask(port, {}, path=f"http://{EVIL}/api/health") != (200, "true")
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"GET /api/health HTTP/1.0\r\nConnection: close\r\n\r\n")
        assert raw.makefile("rb").readline().split()[1] == b"400"


def test_a_foreign_page_can_neither_change_read_nor_embed_anything(port: int) -> None:
    new_flow = json.dumps({"name": "made-by-a-page"})
    for origin, method in product(WRONG_ORIGINS, ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")):
        # Without a content type, as for an untyped Blob, which needs no preflight.
        assert ask(port, {"Origin": origin}, method, "/api/flows/", new_flow)[0] == 403, (origin, method)
    status, flows = ask(port, {"Content-Type": "application/json"}, "POST", FLOWS, "{}")
    assert (status, "made-by-a-page" in flows) == (200, False)
    # Such requests have no Origin: images, scripts, frames, links.
    for site in ("cross-site", "same-site"):
        for dest, path in product(("empty", "image", "script", "iframe", "frame", "embed", "object"), PATHS):
            assert ask(port, {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": dest}, path=path)[0] == 403, (dest, path)
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert ask(port, link, path="/gramhouse/report")[0] in {200, 404}
        assert ask(port, link, path="/api/csrf-token?client=x")[0] == 403


def test_a_foreign_page_opens_no_websocket(port: int) -> None:
    for host, origin, opens in (
        *(("127.0.0.1", origin, True) for origin in (None, "http://localhost:PORT")),
        *(("127.0.0.1", origin, False) for origin in ("https://evil.example", "null")),
        *((EVIL, origin, False) for origin in (None, f"http://{EVIL}:PORT")),
    ):
        given = None if origin is None else Origin(origin.replace("PORT", str(port)))
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            nullcontext() if opens else pytest.raises(InvalidStatus, match=r"40[03]"),
            connect(f"ws://{host}:{port}/api/events/out", sock=raw, origin=given),
        ):
            pass


def test_other_machines_cannot_reach_it(port: int) -> None:
    # Linux routes all of 127.0.0.0/8 to this machine: a server that listens on every address also listens here.
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port)):
        pass
