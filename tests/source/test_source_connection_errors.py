"""Messages of connection errors: server and cause, on real local sockets; tests/known_faults has those of TLS."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient, Timeouts
from connectors.source.endpoints import accounts_request
from connectors.source.errors import ApiError
from connectors.source.network import Network
from tests.clocks import WakefulClock
from tests.private_network import create_authority
from tests.servers import Meet, listening
from tests.source.test_source_client import Stage, saying

pytestmark = pytest.mark.anyio
REQUEST = accounts_request(None, 50)
NO_HTTP = "127.0.0.1:PORT answered with something that is not HTTP"
LIBRARIES = ("ssl:default", "ssl:True", "Error", "Exception", "aiohttp", "httpx", "Errno", "[SSL", "call failed")


async def failure(url: str, certificates: ssl.SSLContext | None = None) -> tuple[str, str]:
    """Send one request; return the error code and the message, with PORT for the port."""
    timeout = Timeouts(connect=0.3, read=0.3, total=1)
    client = ApiClient(
        url, SecretStr("k" * 20), clock=WakefulClock(), timeout=timeout, network=Network(certificates=certificates)
    )
    async with client:
        with pytest.raises(ApiError) as caught:
            await client.send(REQUEST)
    error = caught.value.failure
    message = error.message
    assert not [name for name in LIBRARIES if name in message]
    assert "\n" not in message
    return error.code, message.replace(url.rpartition(":")[2], "PORT")


@pytest.fixture
def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize(("scheme", "host"), [("http", "localhost"), ("https", "127.0.0.1")])
async def test_a_port_on_which_no_program_listens(scheme: str, host: str, free_port: int) -> None:
    result = await failure(f"{scheme}://{host}:{free_port}")
    assert result == ("connection_failed", f"cannot connect to {host}:PORT: connection refused")


async def test_a_host_that_does_not_exist() -> None:
    code, message = await failure("https://no-such-host.invalid:8443")
    assert (code, message.split(": ")[0]) == ("connection_failed", "cannot connect to no-such-host.invalid:PORT")
    assert message.split(": ")[1].startswith("the host name ")


@pytest.mark.parametrize(
    ("play", "code", "message"),
    [
        (saying(then="hang"), "timeout", "127.0.0.1:PORT did not answer in time"),
        (saying(then="reset"), "connection_reset", "127.0.0.1:PORT closed the connection before it answered"),
        (saying(then="close"), "connection_reset", "127.0.0.1:PORT closed the connection before it answered"),
        (
            saying(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nabc", then="close"),
            "cut_body",
            "the response of 127.0.0.1:PORT ended early, or its compression is damaged",
        ),
        (
            saying(b"220 mail.example ESMTP\r\n\r\n", then="close"),
            "protocol_error",
            f"{NO_HTTP}: Bad status line",
        ),
        (
            saying(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", then="close"),
            "protocol_error",
            f"{NO_HTTP}: Got more than 65536 bytes when reading",
        ),
    ],
    ids=["silent", "reset", "closed", "cut", "no HTTP", "long header"],
)
async def test_a_server_that_does_not_answer_as_one_should(play: Meet, code: str, message: str) -> None:
    async with Stage(play).open() as stage:
        assert await failure(stage.url) == (code, message)


@pytest.fixture
def full() -> Iterator[int]:
    """A port whose queue of connections is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.settimeout(0)
            one.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]
        for one in waiting:
            one.close()


async def test_a_server_that_accepts_no_connection(full: int) -> None:
    result = await failure(f"http://127.0.0.1:{full}")
    assert result == ("timeout", "127.0.0.1:PORT did not accept the connection in time")


async def test_a_refused_certificate_is_reported_with_its_reason(tmp_path: Path) -> None:
    authority, server = create_authority(tmp_path, "other.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(authority)
    async with listening(saying(then="hang"), context) as port:
        result = await failure(f"https://127.0.0.1:{port}")
        assert result == (
            "certificate_refused",
            "the certificate of 127.0.0.1:PORT is not trusted: unable to get local issuer certificate",
        )
        code, message = await failure(f"https://localhost:{port}", trusting)
    assert code == "certificate_refused"
    assert message.endswith("Hostname mismatch, certificate is not valid for 'localhost'")
