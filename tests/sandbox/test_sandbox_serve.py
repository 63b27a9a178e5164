"""The sandbox on a real socket."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.keys import DEMO_KEY
from connectors.sandbox.http.serve import in_thread
from tests.sandbox.asgi_client import ACCOUNTS

AUTHORIZED = {"Authorization": f"Bearer {DEMO_KEY}"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_thread(Sandbox()) as url:
        yield url


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (b"GET /api/v1/accounts HTTP/1.1\r\nContent-Length: x", 400, b"api_invalid_content_length"),
        (b"GET /api/v1/acc ounts HTTP/1.1", 400, b"api_invalid_request_url"),
        (
            b"GET /api/v1/accounts HTTP/1.1\r\nAuthorization: Bearer sandbox-demo-key\r\nContent-Length: 1048577",
            413,
            b"api_body_too_large",
        ),
    ],
)
def test_requests_that_are_not_read_get_a_response(url: str, head: bytes, status: int, code: bytes) -> None:
    parts = urlsplit(url)
    answer = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=240) as connection:
        connection.sendall(head + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
        while chunk := connection.recv(65_536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b'"code":"%s"' % code in answer
    assert re.search(rb"x-correlation-id: [0-9A-HJKMNP-TV-Z]{26}\r\n", answer)


@pytest.mark.e2e
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_the_command_prints_its_settings_and_a_signal_ends_it(number: signal.Signals) -> None:
    command = ["sandbox", "--port", "0", "--day", "2"]
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "flows.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline().rstrip("\n")
        url = first.removeprefix("export GRAMHOUSE_BASE_URL=").removesuffix(" GRAMHOUSE_API_KEY=sandbox-demo-key")
        listed = httpx.get(url + ACCOUNTS, headers=AUTHORIZED).json()["items"]
        assert httpx.get(f"{url}/_sandbox/day").json() == {"day": 2}
        media = f"{url}{ACCOUNTS}/{listed[0]['id']}/media?surface=posts"
        newest = datetime.fromisoformat(httpx.get(media, headers=AUTHORIZED).json()["items"][0]["timestamp"])
        assert 0 < (datetime.now(UTC) - newest).total_seconds() < 8 * 86_400
        process.send_signal(number)
        output, errors = process.communicate(timeout=240)
    finally:
        process.kill()
    assert (process.returncode, output, "Traceback" in errors) == (0, "", False)
