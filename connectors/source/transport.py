"""httpx over aiohttp for what the client asks, thousands of times: GET without a body, below one address."""

import ssl
from collections.abc import AsyncIterator
from functools import lru_cache
from types import TracebackType
from typing import Any, Final

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import map_aiohttp_exceptions


class PageTransport(AiohttpTransport):
    """Sends what has no body, and follows nothing; raises httpx's errors, like any other.

    The request's `timeout` extension must say `connect` and `read`, in seconds.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer once its head is there; its stream must be closed."""
        if not isinstance(self.client, aiohttp.ClientSession):
            self.client = self.get_client()
        within = request.extensions["timeout"]
        with _IN_HTTPX_TERMS:
            answer = await self.client.request(
                request.method,
                str(request.url),
                headers=request.headers,
                allow_redirects=False,
                auto_decompress=False,
                timeout=_patience(within["connect"], within["read"]),
            )
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=_Pieces(answer), request=request)


class _Pieces(httpx.AsyncByteStream):
    """A body as it arrives, in pieces as large as they come: aiohttp stops reading when it holds too much."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with _IN_HTTPX_TERMS:
            piece = await self._answer.content.readany()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        with _IN_HTTPX_TERMS:
            await self._answer.__aexit__(None, None, None)


class _InHttpxTerms:
    """httpx-aiohttp's table of exceptions, looked into only when there is one."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            with map_aiohttp_exceptions():
                raise error


_IN_HTTPX_TERMS: Final = _InHttpxTerms()


@lru_cache
def _patience(connect: float, read: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(sock_connect=connect, sock_read=read)


class _WaryConnector(aiohttp.TCPConnector):
    """Keeps connections, but uses none on which something was said that nobody had asked for.

    aiohttp would take it for the next answer: a page of something else, or a refusal that is none of ours.
    """

    async def _get(self, key: Any, traces: Any) -> Any:  # noqa: ANN401 - aiohttp's own types, which it does not publish
        while kept := await super()._get(key, traces):
            if kept.protocol is None or not kept.protocol.should_close:
                break
            kept.close()
        return kept


def page_transport(base: httpx.URL, concurrency: int, certificates: ssl.SSLContext | None) -> PageTransport:
    """Make the transport for what lies below `base`; `certificates` replaces the public ones."""
    if certificates is None:
        # The public ones take longer to read than a page to come. What is spoken in the clear needs none, and this
        # context, should it ever be asked, trusts nobody.
        secure = base.scheme != "http"
        certificates = httpx.create_ssl_context(trust_env=False) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def session() -> aiohttp.ClientSession:
        made = aiohttp.ClientSession(
            connector=_WaryConnector(limit=concurrency, ssl=certificates),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        # It would ask again by itself when a connection breaks: at once, and unseen by whoever counts the tries.
        made._retry_connection = False  # noqa: SLF001 - there is no setting for it
        return made

    return PageTransport(verify=certificates, trust_env=False, client=session)


def below(base: httpx.URL, path: str, query: str) -> httpx.URL:
    """Return the URL of a path and a query below a base; both are percent-encoded, down to what every URL may hold.

    httpx would look at every character of them again, for half of what a request costs.
    """
    url = httpx.URL(base)
    parts = base._uri_reference  # noqa: SLF001 - its own way to change a URL begins by parsing it
    url._uri_reference = parts._replace(path=parts.path.rstrip("/") + path, query=query)  # noqa: SLF001
    return url
