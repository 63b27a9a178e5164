"""Connections over aiohttp, with changes to its defaults: see docs/decisions.md."""

import ssl
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from connectors.source.network import Proxy

if TYPE_CHECKING:
    import asyncio

    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

MAX_HEADER_BYTES: Final = 65_536
"""Limit of the status line and of each header of a response, name and value together."""
MAX_HEADERS: Final = 1_000
"""Limit of the number of headers of a response."""


class _Connector(aiohttp.TCPConnector):
    """Keeps connections open, but reuses none that may be broken or lead to somebody else than the service.

    After a lost request (a restart breaks all connections), or an answer of a gateway, all are new: a new generation.
    So is one after which unrequested data arrived: aiohttp would read it as the response to the next request.
    """

    def __init__(self, limit: int, certificates: ssl.SSLContext) -> None:
        super().__init__(limit=limit, ssl=certificates)
        self._generation = 0
        self._opened: WeakKeyDictionary[asyncio.Protocol, int] = WeakKeyDictionary()
        self._is_kept: WeakKeyDictionary[aiohttp.ClientRequest, bool] = WeakKeyDictionary()

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
            is_kept = protocol in self._opened
            opened = self._opened.setdefault(protocol, self._generation)
            if opened == self._generation and not (is_kept and protocol.should_close):
                self._is_kept[req] = is_kept
                return connection
            connection.close()

    async def send(self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request: once, but again if it was lost on a kept connection before anything of the answer arrived.

        aiohttp would repeat any lost request. A different error prevents that.
        """
        try:
            answer = await send(request)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            self._generation += 1
            if not self._is_kept.get(request):
                raise aiohttp.ClientConnectionError(str(error)) from error
            return await self.send(request, send)
        kind = answer.headers.get("Content-Type", "")
        if "html" in kind or (answer.status != 200 and "json" not in kind):
            self._generation += 1
        return answer


def open_transport(
    *, secure: bool, concurrency: int, certificates: ssl.SSLContext | None, proxy: Proxy | None = None
) -> AiohttpTransport:
    """Create the transport. `certificates` replaces the public certificates, which are only loaded if `secure`."""
    if certificates is None:
        # Loading the public certificates takes longer than a page. The context for plain http trusts no server.
        certificates = httpx.create_ssl_context(trust_env=False) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def session() -> aiohttp.ClientSession:
        connector = _Connector(concurrency, certificates)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(connector.send,),
            trust_env=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )

    through = None
    if proxy is not None:
        login = {} if proxy.authorization is None else {"Proxy-Authorization": proxy.authorization}
        through = httpx.Proxy(proxy.url, headers=login)
    return AiohttpTransport(verify=certificates, trust_env=False, proxy=through, client=session)
