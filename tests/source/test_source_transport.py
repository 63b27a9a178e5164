"""What is done otherwise than httpx and httpx-aiohttp would do it comes to the same."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import aiohttp
import httpx
import pytest
from httpx_aiohttp import AiohttpTransport
from hypothesis import given
from hypothesis import strategies as st

from connectors.source.transport import PageTransport, below, page_transport

WITHIN = {"timeout": {"connect": 5.0, "read": 5.0}}
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Twice: a\r\nX-Twice: b\r\n\r\n{}"
BASES = (
    "http://127.0.0.1:8080",
    "https://api.example",
    "https://API.example:443/pre/fix",
    "https://[::1]:8443/a|b/%zz",
)


@given(st.sampled_from(BASES), st.text(), st.text())
def test_a_url_is_what_httpx_would_make_of_it(base: str, account: str, cursor: str) -> None:
    path, query = f"/accounts/id{quote(account, safe='')}/media", f"cursor={quote(cursor, safe='')}&limit=50"
    made, read = below(httpx.URL(base), path, query), httpx.URL(f"{base}{path}?{query}")
    assert (made, str(made), made.raw_path) == (read, str(read), read.raw_path)


def test_a_base_is_left_as_it_is() -> None:
    base = httpx.URL("https://api.example/pre")
    below(base, "/x", "y=z")
    assert str(base) == "https://api.example/pre"


def test_only_https_reads_the_public_certificates() -> None:
    def trusted(url: str) -> int:
        return page_transport(httpx.URL(url), 1, None).ssl_context.cert_store_stats()["x509_ca"]

    assert trusted("https://api.example") > 0
    assert trusted("http://127.0.0.1") == 0


def test_nobody_is_trusted_where_nobody_needs_to_be() -> None:
    context = page_transport(httpx.URL("http://127.0.0.1"), 1, None).ssl_context
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_certificates_that_are_given_are_those_that_count() -> None:
    given_ones = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert page_transport(httpx.URL("https://api.example"), 1, given_ones).ssl_context is given_ones


@asynccontextmanager
async def _answering(answer: bytes) -> AsyncIterator[str]:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def _ask(transport: AiohttpTransport, url: str) -> tuple[int, list[tuple[str, str]], bytes]:
    async with transport:
        answer = await transport.handle_async_request(httpx.Request("GET", url, extensions=WITHIN))
        try:
            return answer.status_code, answer.headers.multi_items(), await answer.aread()
        finally:
            await answer.aclose()


@pytest.mark.anyio
async def test_an_answer_is_the_one_that_httpx_aiohttp_gives() -> None:
    async with _answering(PAGE) as url:
        ours = await _ask(page_transport(httpx.URL(url), 1, None), url)
        assert ours == await _ask(AiohttpTransport(), url)
    assert ours[2] == b"{}"


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [b"", PAGE[:-1], b"SSH-2.0\r\n\r\n"], ids=["nothing", "cut", "no HTTP"])
async def test_what_goes_wrong_is_called_what_httpx_aiohttp_calls_it(answer: bytes) -> None:
    async def failure(transport: AiohttpTransport) -> tuple[object, object]:
        with pytest.raises((httpx.HTTPError, aiohttp.ClientError)) as caught:
            await _ask(transport, url)
        return type(caught.value), type(caught.value.__cause__)

    async with _answering(answer) as url:
        assert await failure(page_transport(httpx.URL(url), 1, None)) == await failure(AiohttpTransport())


def test_it_is_the_transport_of_httpx_aiohttp() -> None:
    assert issubclass(PageTransport, AiohttpTransport)
