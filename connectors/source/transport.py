"""Connections over aiohttp, with changes to its defaults: see docs/decisions.md."""

import ssl
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from connectors.source.network import Network

if TYPE_CHECKING:
    import asyncio

    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

MAX_HEADER_BYTES: Final = 65_536
"""Limit of the status line and of each header of a response, name and value together."""
MAX_HEADERS: Final = 1_000
"""Limit of the number of headers of a response."""


class Transport(AiohttpTransport):
    """Sends requests over kept connections, but reuses none that may lead to somebody else than the service.

    After a lost request, or an answer of a gateway, all connections are new. The public certificates are only loaded if
    `secure`.
    """

    def __init__(self, network: Network, *, secure: bool, concurrency: int) -> None:
        # Loading the public certificates takes longer than a page. The context for http trusts no server.
        certificates = network.certificates or (
            httpx.create_ssl_context(trust_env=False) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        # The key must not reach a proxy, as it would without TLS.
        proxy = _proxy(network.proxy.url.get_secret_value()) if secure and network.proxy else None
        super().__init__(verify=certificates, trust_env=False, proxy=proxy, client=self._open_session)
        self._concurrency = concurrency
        self._is_usable: WeakKeyDictionary[asyncio.Protocol, bool] = WeakKeyDictionary()

    def _open_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(self._concurrency, self.ssl_context, self._is_usable),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, without redirects, cookies or credentials of the environment."""
        try:
            answer = await super().handle_async_request(request)
        except Exception:
            self._renew_connections()
            raise
        kind = answer.headers.get("content-type", "")
        if "html" in kind or (answer.status_code != 200 and "json" not in kind):
            self._renew_connections()
        return answer

    def _renew_connections(self) -> None:
        self._is_usable.update(dict.fromkeys(self._is_usable, False))


def _proxy(url: str) -> httpx.Proxy:
    """Return a proxy whose credentials are a header: what httpx_aiohttp does with them is deprecated by aiohttp."""
    parsed = httpx.Proxy(url)
    if parsed.raw_auth is None:
        return parsed
    return httpx.Proxy(
        parsed.url, headers={"Proxy-Authorization": f"Basic {b64encode(b':'.join(parsed.raw_auth)).decode()}"}
    )


class _Connector(aiohttp.TCPConnector):
    """Reuses no connection that is not `is_usable` any more, and none on which unrequested data arrived.

    aiohttp would read it as the response to the next request.
    """

    def __init__(
        self, limit: int, certificates: ssl.SSLContext, is_usable: "WeakKeyDictionary[asyncio.Protocol, bool]"
    ) -> None:
        super().__init__(limit=limit, ssl=certificates)
        self._is_usable = is_usable

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: "list[Trace]",
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - overrides a parameter of aiohttp
    ) -> "Connection":
        """Return a new connection, or a kept one that may be used again."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None  # noqa: S101 - for mypy: only a closed connection has none
            if protocol not in self._is_usable:
                self._is_usable[protocol] = True
                return connection
            if self._is_usable[protocol] and not protocol.should_close:
                return connection
            connection.close()
