"""Connections over aiohttp, with three changes to its defaults: see docs/decisions/requests.md."""

import ssl
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

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
    """Keeps connections open, but does not reuse one on which the server has sent unrequested data.

    aiohttp would read that data as the response to the next request.
    """

    def __init__(self, limit: int, certificates: ssl.SSLContext) -> None:
        super().__init__(limit=limit, ssl=certificates)
        self._used: WeakSet[asyncio.Protocol] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: "list[Trace]",
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - overrides a parameter of aiohttp
    ) -> "Connection":
        """Return a new connection, or a kept one on which nothing has arrived since its last response."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None:
                return connection
            if protocol not in self._used:
                self._used.add(protocol)
                return connection
            if not protocol.should_close:
                return connection
            connection.close()


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request once. aiohttp repeats a GET if a kept connection breaks; a different error prevents that."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error


def transport(
    *, secure: bool, concurrency: int, certificates: ssl.SSLContext | None, proxy: Proxy | None = None
) -> AiohttpTransport:
    """Create the transport. `certificates` replaces the public certificates, which are only loaded if `secure`."""
    if certificates is None:
        # Loading the public certificates takes longer than a page. The context for plain http trusts no server.
        certificates = httpx.create_ssl_context(trust_env=False) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(concurrency, certificates),
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_once,),
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
