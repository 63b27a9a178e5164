"""Connections over aiohttp, with changes to its defaults (docs/decisions.md), and what their errors mean."""

import os
import re
import ssl
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

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


def open_transport(network: Network, concurrency: int) -> httpx.AsyncBaseTransport:
    """Return a transport over kept connections, at most `concurrency` of them."""
    certificates = network.certificates or httpx.create_ssl_context(trust_env=False)

    def open_session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=concurrency, ssl=certificates),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )

    proxy = _proxy(network.proxy_url.get_secret_value()) if network.proxy_url else None
    return AiohttpTransport(verify=certificates, trust_env=False, proxy=proxy, client=open_session)


def _proxy(url: str) -> httpx.Proxy:
    """Return a proxy whose credentials are a header: what httpx_aiohttp does with them is deprecated by aiohttp."""
    parsed = httpx.Proxy(url)
    if parsed.raw_auth is None:
        return parsed
    return httpx.Proxy(
        parsed.url, headers={"Proxy-Authorization": f"Basic {b64encode(b':'.join(parsed.raw_auth)).decode()}"}
    )


class _Connector(aiohttp.TCPConnector):
    """Reuses no connection on which unrequested data arrived: it would be read as the response to the next request."""

    def __init__(self, *, limit: int, ssl: ssl.SSLContext) -> None:
        super().__init__(limit=limit, ssl=ssl)
        self._known: WeakSet[asyncio.Protocol] = WeakSet()

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
            if protocol not in self._known or not protocol.should_close:
                self._known.add(protocol)
                return connection
            connection.close()


# The code in `RULES` and the text of an error; the first row that matches is used. The classes are aiohttp's, from
# which its httpx transport raises each error of httpx: it reports both refused and reset connections as ConnectTimeout.
_UNREACHED = "connection_failed", "cannot connect to {server}"
_ROWS: tuple[tuple[type[BaseException], tuple[str, str]], ...] = (
    (ssl.CertificateError, ("certificate_refused", "the certificate of {server} is not trusted")),
    (aiohttp.ConnectionTimeoutError, ("timeout", "{server} did not accept the connection in time")),
    (TimeoutError, ("timeout", "{server} did not answer in time")),
    (aiohttp.ClientConnectorError, _UNREACHED),
    (aiohttp.ClientConnectionError, ("connection_reset", "{server} closed the connection before it answered")),
    (ConnectionError, ("connection_reset", "{server} closed the connection before it answered")),
    (aiohttp.ClientHttpProxyError, ("proxy_refused", "cannot connect to {server}")),
    (aiohttp.ClientResponseError, ("protocol_error", "{server} answered with something that is not HTTP")),
)

_ERRNO = re.compile(r"\[Errno (\d+)\]")
_ALERT = re.compile(r"\[SSL: (\w+)\]")


def explain(error: Exception, server: str, proxy: str, *, begun: bool) -> tuple[str, str]:
    """Return the code in `RULES` for a transport's exception, and one line that names the server and the cause.

    The line has no names of libraries. `begun`: the response's headers had arrived.
    """
    cause: BaseException = error
    while isinstance(cause.__cause__, aiohttp.ClientError):
        cause = cause.__cause__
    # The error of the system or of TLS, which aiohttp wraps.
    inner = getattr(cause, "certificate_error", None) or getattr(cause, "os_error", None) or cause
    code, text = next((row for kind, row in _ROWS if isinstance(cause, kind)), _UNREACHED)
    if begun and code != "timeout":
        code, text = "cut_body", "the response of {server} ended early, or its compression is damaged"
    elif code != "certificate_refused" and _ALERT.search(str(inner)):
        # Also an alert of the server after the handshake, which has the number of a system error.
        code, text = "tls_failed", "no TLS (https) with {server}"
    through = f" through the proxy {proxy}" if proxy else ""
    reason = _reason(inner)
    return code, text.format(server=server + through) + (f": {reason}" if reason else "")


def _reason(error: BaseException) -> str:
    """Return the cause without what another program wrote: a proxy's text, or a part of a response, may be anything."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered with status {error.status}"
        case aiohttp.ClientResponseError():
            return error.message.strip().partition("\n")[0].partition(":")[0]
        case ssl.SSLCertVerificationError(verify_message=str(message)) if message:
            return message.rstrip(".")
        case OSError() if alert := _ALERT.search(str(error)):
            return alert[1].replace("_", " ").lower()
        case OSError() if numbers := dict.fromkeys(_ERRNO.findall(str(error))):
            # For a host with several addresses asyncio joins all errors into one text.
            return ", ".join(os.strerror(int(number)).lower() for number in numbers)
        case OSError(strerror=str(message)):
            return message.lower()
        case _:
            return ""
