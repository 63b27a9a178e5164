"""Connections: defaults of httpx and aiohttp that must be changed, and that no private name of theirs is used."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient
from connectors.source.errors import ApiError
from connectors.source.network import Network
from connectors.source.transport import Transport
from models.api import MediaPage
from tests.clocks import WakefulClock
from tests.servers import listening
from tests.source.test_source_client import KEY, REQUEST, Stage, http, saying

OTHER = b'{"items":[{"id":"1"},{"id":"2"}],"next_cursor":null}'


def _trusted(*, secure: bool) -> int:
    made = Transport(Network(), secure=secure, concurrency=1)
    return made.ssl_context.cert_store_stats()["x509_ca"]


def test_only_https_reads_the_public_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The environment replaces them only by way of `certificates`.
    (tmp_path / "evil.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "evil.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert _trusted(secure=True) > 0
    assert _trusted(secure=False) == 0


@pytest.mark.parametrize("secure", [False, True])
def test_a_server_needs_a_trusted_certificate_of_its_name(*, secure: bool) -> None:
    context = Transport(Network(), secure=secure, concurrency=1).ssl_context
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.anyio
@pytest.mark.parametrize("then", ["reset", "close"])
async def test_requests_on_kept_connections_that_broke_are_repeated_on_new_ones(then: str) -> None:
    """A restart of the service breaks all of them at once: none is a failure."""
    answered = asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(stage.heads) <= 8:
            if len(stage.heads) == 8:
                answered.set()
            await answered.wait()
            writer.write(http())
        elif writer.get_extra_info("peername") in met:
            await saying(then=then)(reader, writer)
        else:
            writer.write(http())
        met.add(writer.get_extra_info("peername"))

    met: set[object] = set()
    async with (
        Stage(play).open() as stage,
        ApiClient(stage.url, SecretStr(KEY), clock=WakefulClock(), concurrency=8) as client,
    ):
        await asyncio.gather(*[client.send(REQUEST) for _ in range(8)])
        await asyncio.gather(*[client.send(REQUEST) for _ in range(8)])
    assert len(met) == 16


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (http("401 X", b"<html>", content_type="text/html"), False),
        (http("302 X", b"", location="/login"), False),
        (http(body=b"<html>", content_type="text/html"), False),
        (http("500 X", b'{"error":{}}', content_type="application/json"), True),
        (http(), True),
    ],
)
async def test_a_connection_on_which_a_gateway_answered_is_not_used_again(answer: bytes, *, is_kept: bool) -> None:
    peers: list[object] = []

    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername"))
        writer.write(answer)

    async with (
        Stage(play).open() as stage,
        ApiClient(stage.url, SecretStr(KEY), clock=WakefulClock(), concurrency=1) as client,
    ):
        for _ in range(2):
            with suppress(ApiError):
                await client.send(REQUEST)
    assert (len(peers), peers[0] == peers[1]) == (2, is_kept)


@pytest.mark.anyio
@pytest.mark.parametrize("unasked", [http(body=OTHER), b"220 mail.example ESMTP\r\n\r\n"], ids=repr)
async def test_data_that_was_not_requested_answers_no_request(unasked: bytes) -> None:
    peers: list[object] = []

    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername"))
        writer.write(http())
        await writer.drain()
        if len(peers) == 1:
            await asyncio.sleep(0.02)
            writer.write(unasked)

    async with (
        Stage(play).open() as stage,
        ApiClient(stage.url, SecretStr(KEY), clock=WakefulClock(), concurrency=1) as client,
    ):
        await client.send(REQUEST)
        await asyncio.sleep(0.1)
        second = await client.send(REQUEST)
        third = await client.send(REQUEST)
    for response in (second, third):
        assert isinstance(response.page, MediaPage)
        assert response.page.items == 1
    assert (len(stage.heads), len(set(peers)), peers[1] == peers[2]) == (3, 2, True)


@pytest.mark.anyio
async def test_a_server_that_sends_before_the_request_is_requested_once() -> None:
    connections = 0

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await reader.read()
        writer.close()

    async with (
        listening(meet) as port,
        ApiClient(f"http://127.0.0.1:{port}", SecretStr(KEY), clock=WakefulClock(), concurrency=4) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await client.send(REQUEST)
    assert (caught.value.failure.code, connections) == ("protocol_error", 1)


@pytest.mark.anyio
@pytest.mark.parametrize("location", ["https://[", "http://\udcff/"], ids=ascii)
async def test_a_redirect_with_an_invalid_location_is_a_redirect(location: str) -> None:
    """httpx reads the address of a redirect even when it does not follow it."""

    def answer(request: httpx.Request) -> httpx.Response:
        named = [(b"location", location.encode(errors="surrogateescape")), (b"x-correlation-id", b"0" * 26)]
        return httpx.Response(302, headers=named, request=request)

    mock = httpx.MockTransport(answer)
    async with ApiClient("http://localhost", SecretStr(KEY), clock=WakefulClock(), transport=mock) as client:
        with pytest.raises(ApiError) as caught:
            await client.send(REQUEST)
    failure = caught.value.failure
    assert (failure.code, failure.status, failure.correlation_id) == ("redirect", 302, "0" * 26)
