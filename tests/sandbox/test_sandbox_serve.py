"""The sandbox on a real socket."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

from connectors.sandbox.faults.rules import Action, Rule
from connectors.sandbox.faults.script import ACTIONS
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.keys import DEMO_KEY
from connectors.sandbox.http.serve import LendingProtocol, TidyServer, in_thread
from tests.sandbox.asgi_client import ACCOUNTS

AUTHORIZED = {"Authorization": f"Bearer {DEMO_KEY}"}
SCRIPT = """
import sys
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import serve

def ready(url: str) -> None:
    sys.stdout.write(url + "\\n")
    sys.stdout.flush()

serve(Sandbox(), on_ready=ready)
sys.stdout.write("returned")
"""


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Sandbox, str]]:
    sandbox = Sandbox()
    with in_thread(sandbox) as url:
        yield sandbox, url


@pytest.fixture
def sandbox(served: tuple[Sandbox, str]) -> Iterator[Sandbox]:
    yield served[0]
    served[0].faults.clear()


@pytest.fixture
def client(served: tuple[Sandbox, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served[1], headers=AUTHORIZED, timeout=10) as client:
        yield client


def raw(url: str, request: bytes) -> bytes:
    parts = urlsplit(url)
    answer = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(request)
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer


def test_a_scan_over_one_connection(sandbox: Sandbox, client: httpx.Client) -> None:
    cursor, ids = None, []
    while True:
        page = client.get(ACCOUNTS, params={"limit": 7, **({"cursor": cursor} if cursor else {})})
        assert page.headers["content-type"] == "application/json"
        assert len(page.headers["x-correlation-id"]) == 26
        ids += [account["id"] for account in page.json()["items"]]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            break
    assert ids == [account.id for account in sandbox.catalogue.accounts(0)]
    media = client.get(f"{ACCOUNTS}/{ids[0]}/media", params={"surface": "posts"})
    assert len(media.json()["items"]) == 25


def test_a_cut_body_ends_the_connection(sandbox: Sandbox, client: httpx.Client) -> None:
    sandbox.faults.replace([Rule(Action("cut"), times=1)])
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        client.get(ACCOUNTS)
    assert client.get(ACCOUNTS).status_code == 200


def test_a_reset_is_a_reset(sandbox: Sandbox, client: httpx.Client) -> None:
    sandbox.faults.replace([Rule(Action("reset"), times=1)])
    with pytest.raises(httpx.ReadError) as raised:
        client.get(ACCOUNTS)
    causes: list[BaseException | None] = [raised.value]
    while causes[-1] is not None:
        causes.append(causes[-1].__cause__ or causes[-1].__context__)
    assert any(isinstance(cause, ConnectionResetError) for cause in causes)
    assert client.get(ACCOUNTS).status_code == 200


def test_an_oversize_body(sandbox: Sandbox, client: httpx.Client) -> None:
    sandbox.faults.replace([Rule(Action("oversize", size=5_000_000))])
    assert len(client.get(ACCOUNTS).content) == 5_000_000


def test_a_reader_may_leave_an_oversize_body(sandbox: Sandbox, client: httpx.Client) -> None:
    sandbox.faults.replace([Rule(Action("oversize", size=50_000_000), times=1)])
    with client.stream("GET", ACCOUNTS) as response:
        next(response.iter_bytes())
    assert client.get(ACCOUNTS).status_code == 200


@pytest.mark.parametrize("kind", sorted(ACTIONS - {"cut", "reset", "delay", "oversize"}))
def test_every_other_fault_is_an_answer(sandbox: Sandbox, client: httpx.Client, kind: str) -> None:
    first = client.get(ACCOUNTS, params={"limit": 5}).json()["next_cursor"]
    sandbox.faults.replace([Rule(Action(kind))])
    answer = client.get(ACCOUNTS, params={"limit": 5, "cursor": first})
    assert answer.content != b"" or kind == "redirect"
    assert ("x-correlation-id" in answer.headers) == (kind != "html_502")


@pytest.mark.parametrize(
    ("request_head", "code"),
    [
        (b"GET /api/v1/accounts HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", b"api_invalid_content_length"),
        (b"GET /api/v1/acc ounts HTTP/1.1\r\nHost: x\r\n\r\n", b"api_invalid_request_url"),
    ],
)
def test_unparsable_requests_get_a_response(served: tuple[Sandbox, str], request_head: bytes, code: bytes) -> None:
    answer = raw(served[1], request_head)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"%s"' % code in answer
    assert re.search(rb"x-correlation-id: [0-9A-HJKMNP-TV-Z]{26}\r\n", answer)


def test_a_body_over_the_limit_is_refused_unread(served: tuple[Sandbox, str]) -> None:
    head = b"GET /api/v1/accounts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sandbox-demo-key\r\n"
    answer = raw(served[1], head + b"Content-Length: 1048577\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"api_body_too_large" in answer


def test_control_over_the_socket(sandbox: Sandbox, client: httpx.Client) -> None:
    assert client.post("/_sandbox/faults", json=[{"action": "html_502"}]).status_code == 200
    assert client.get(ACCOUNTS).status_code == 502
    assert client.delete("/_sandbox/faults").json() == {"faults": []}
    assert len(client.get("/_sandbox/truth").content.splitlines()) == 40
    assert client.get("/openapi.json").json()["openapi"] == "3.1.0"
    assert sandbox.faults.rules == ()


def test_httpx_reaches_it_in_process() -> None:
    async def ask() -> int:
        transport = httpx.ASGITransport(Sandbox())
        async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
            return len((await client.get(ACCOUNTS, headers=AUTHORIZED)).json()["items"])

    assert asyncio.run(ask()) == 25


def test_lifespan_is_acknowledged() -> None:
    sent: list[str] = []
    stages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def live() -> None:
        async def receive() -> dict[str, str]:
            return {"type": next(stages)}

        async def send(message: object) -> None:
            sent.append(message["type"])  # type: ignore[index]

        await Sandbox()({"type": "lifespan"}, receive, send)

    asyncio.run(live())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.e2e
def test_keys_of_the_command_line_are_printed_once_and_accepted() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "flows.cli",
            "sandbox",
            "--port",
            "0",
            "--key",
            "narrow/automations:read/3",
            "--key",
            "no/none",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        first, narrow, unscoped = (process.stdout.readline().rstrip("\n") for _ in range(3))
        url = first.removeprefix("export GRAMHOUSE_BASE_URL=").removesuffix(" GRAMHOUSE_API_KEY=sandbox-demo-key")
        found = [re.fullmatch(r"export GRAMHOUSE_API_KEY=(\S+)  # (.*)", line) for line in (narrow, unscoped)]
        secrets = [match[1] for match in found if match]
        choices = [match[2] for match in found if match]
        assert choices == ["narrow: automations:read; 3 accounts", "no: no scope; all accounts"]
        listed = [
            httpx.get(url + ACCOUNTS, headers={"Authorization": f"Bearer {secret}"}).json()["items"]
            for secret in secrets
        ]
        assert [len(accounts) for accounts in listed] == [3, 25]
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=10)
    assert output == ""


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(url + ACCOUNTS, headers=AUTHORIZED).status_code == 200
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "returned", "")


# How far the event loop has come with accepting the connection depends on the version of Python.
@pytest.mark.parametrize("steps", range(6))
def test_a_connection_that_is_being_accepted_is_closed_when_the_server_stops(steps: int) -> None:
    async def accept_and_stop() -> None:
        config = uvicorn.Config(Sandbox(), http=LendingProtocol, ws="none", lifespan="off", log_config=None)
        config.load()
        server = TidyServer(config)
        server.lifespan = config.lifespan_class(config)
        server.force_exit = True
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await server.startup(sockets=[listener])
            with socket.create_connection(listener.getsockname(), timeout=10) as client:
                for _ in range(steps):
                    await asyncio.sleep(0)

                await server.shutdown([listener])

                assert not server.server_state.connections
                # It ends; or it is reset, if it was not accepted.
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b""

    asyncio.run(accept_and_stop())
