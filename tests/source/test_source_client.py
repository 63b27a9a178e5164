"""One attempt on a real socket: what is sent, what each kind of lost connection becomes, and what is used again."""

import gzip
import socket
import ssl
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from httpx import Timeout
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr

from connectors.source.client import ApiClient, open_transport
from connectors.source.errors import ApiError
from connectors.source.messages import feed_request
from connectors.source.network import Network, read_network
from models.feeds import FEEDS
from tests.clocks import WakefulClock
from tests.private_network import create_authority
from tests.servers import Meet, Stage, http, listening, saying

pytestmark = pytest.mark.anyio
KEY = "canary-4f1e9b"
REQUEST = feed_request(FEEDS["posts"], "an-id", None, 50)
LIBRARIES = ("ssl:default", "ssl:True", "Error", "Exception", "aiohttp", "httpx", "Errno", "[SSL", "call failed")


@pytest.fixture
def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time to connect and for an answer."""
    monkeypatch.setattr("connectors.source.client.TIMEOUT", Timeout(0.1))
    monkeypatch.setattr("connectors.source.client.LONGEST", 0.5)


def client(url: str, **options: Any) -> ApiClient:  # noqa: ANN401 - as ApiClient
    return ApiClient(url, SecretStr(KEY), clock=WakefulClock(), **options)


def everything_shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(error) + repr(vars(error))


async def failing(url: str, **options: Any) -> ApiError:  # noqa: ANN401
    """Send a request that fails; return its error, which shows neither the key nor names of libraries."""
    async with client(url, **options) as one:
        with pytest.raises(ApiError) as caught:
            await one.send(REQUEST)
    error = caught.value
    assert KEY not in everything_shown(error)
    assert (error.__cause__, error.__context__) == (None, None)
    assert error.message.isprintable()
    assert not [name for name in LIBRARIES if name in error.message]
    return error


async def described(url: str, **options: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return code and message of a request that fails, with PORT for the port."""
    failure = await failing(url, **options)
    return failure.code, failure.message.replace(url.rpartition(":")[2], "PORT")


async def test_a_request_has_exactly_the_required_headers() -> None:
    play = saying(http(set_cookie="session=abc; Path=/"))
    async with Stage(play).open() as stage, client(f"{stage.url}/pre/fix/") as one:
        for _ in range(2):
            await one.send(REQUEST)
    [head] = {*stage.heads}
    line, *headers = head.strip().split("\r\n")
    assert line == "GET /pre/fix/api/v1/accounts/an-id/media?surface=posts&limit=50 HTTP/1.1"
    named = {name.lower(): value for name, value in (header.split(": ", 1) for header in headers)}
    assert named.pop("user-agent").startswith("gramhouse/")
    assert named == {
        "host": stage.url.removeprefix("http://"),
        "authorization": f"Bearer {KEY}",
        "accept": "application/json",
        "accept-encoding": "gzip",
        "cache-control": "no-cache",
    }


SERVER = "127.0.0.1:PORT"
CLOSED = f"{SERVER} closed the connection before it answered"
LATE = f"{SERVER} did not answer in time"
LARGE = "the response is larger than 10000 bytes"
BOMB = gzip.compress(bytes(10_000_000))
# Faults that depend on time or on the limit, or have a text of their own; tests/conformance has the others.
LOST: dict[str, tuple[Meet, str, str]] = {
    "silent": (saying(then="hang"), "timeout", LATE),
    "reset": (saying(then="reset"), "connection_reset", CLOSED),
    # Each piece arrives in time and would extend a read timeout, and the last one ends the response.
    "a slow drip": (saying(http()[:-40], *[b" "] * 40, pause=0.03), "timeout", LATE),
    "too large": (saying(http(body=b" " * 10_001)), "body_too_large_response", LARGE),
    "a gzip bomb": (saying(http(body=BOMB, content_encoding="gzip")), "body_too_large_response", LARGE),
}


@pytest.mark.parametrize("case", LOST)
async def test_each_lost_connection_has_its_code_and_a_text_with_server_and_cause(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    play, code, message = LOST[case]
    monkeypatch.setattr("connectors.source.client.MAX_BODY_BYTES", 10_000)
    if code == "timeout":
        request.getfixturevalue("hasten")
    async with Stage(play).open() as stage:
        assert await described(stage.url) == (code, message)


async def test_a_page_has_no_key() -> None:
    fields = f'{{"items": [], "next_cursor": null, "{KEY}": 1}}'.encode()
    async with Stage(saying(http(body=fields))).open() as stage, client(stage.url) as one:
        page = (await one.send(REQUEST)).page
    assert ({*page.unknown_fields}, KEY.encode() in page.body) == ({"***"}, False)
    async with Stage(saying(http(body=f"<html>Bearer {KEY}</html>".encode()))).open() as stage:
        assert (await failing(stage.url)).body == b"<html>Bearer ***</html>"


async def test_a_server_that_cannot_be_connected_to(request: pytest.FixtureRequest) -> None:
    code, message = await described("https://no-such-host.invalid:8443")
    assert (code, message.rpartition(": ")[0]) == ("connection_failed", "cannot connect to no-such-host.invalid:PORT")
    with socket.socket() as taken, ExitStack() as waiting:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for scheme, host in (("http", "localhost"), ("https", "127.0.0.1")):
            refused = await described(f"{scheme}://{host}:{port}")
            assert refused == ("connection_failed", f"cannot connect to {host}:PORT: connection refused")
        # Its queue of connections is full.
        taken.listen(0)
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.settimeout(0)
            one.connect_ex(taken.getsockname())
        request.getfixturevalue("hasten")
        late = await described(f"http://127.0.0.1:{port}")
    assert late == ("timeout", f"{SERVER} did not accept the connection in time")


async def test_a_certificate_and_a_scheme_that_are_wrong_are_named(tmp_path: Path) -> None:
    authority, server = create_authority(tmp_path, "other.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    trusting = read_network("https://localhost", {"SSL_CERT_FILE": str(authority)})
    async with listening(saying(then="hang"), context) as port, listening(saying(http(), then="hang")) as plain:
        unknown = await described(f"https://127.0.0.1:{port}")
        other = await described(f"https://localhost:{port}", network=trusting)
        no_tls = await failing(f"http://127.0.0.1:{port}")
        tls = await failing(f"https://127.0.0.1:{plain}")
    why = "unable to get local issuer certificate"
    assert unknown == ("certificate_refused", f"the certificate of {SERVER} is not trusted: {why}")
    assert other[0] == "certificate_refused"
    assert other[1].endswith("Hostname mismatch, certificate is not valid for 'localhost'")
    for error, codes in ((no_tls, {"connection_reset", "protocol_error"}), (tls, {"tls_failed"})):
        assert (error.code in codes, "the scheme (https or http)" in error.rule.hint) == (True, True)


def test_the_public_certificates_are_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The environment replaces them only by way of `Network`.
    (tmp_path / "evil.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "evil.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    transport = open_transport(Network(), 1)
    assert isinstance(transport, AiohttpTransport)
    context = transport.ssl_context
    assert context.cert_store_stats()["x509_ca"] > 0
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_server_that_sends_before_the_request_is_not_connected_to_for_ever() -> None:
    async with listening(saying(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", then="hang")) as port:
        assert (await failing(f"http://127.0.0.1:{port}")).code == "protocol_error"
