"""The HTTP client of the API: sends a request, returns a page or raises an ApiError."""

import asyncio
import os
import re
import ssl
import zlib
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit
from weakref import WeakSet

import aiohttp
import httpx
from aiohttp.connector import Connection
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr

from connectors.source.errors import ApiError
from connectors.source.messages import ApiRequest, Memory, Response, read_correlation_id, read_response
from connectors.source.network import Network, check_api_key, check_base_url
from models import release
from models.api import DEFAULT_PATHS, PagePaths
from models.clock import Clock

# After decompression. An error envelope (API 2) is far smaller; none of a larger one is read, or searched for the key.
MAX_BODY_BYTES = 64 * 1024 * 1024
_MAX_ERROR_BYTES = 256 * 1024

_MAX_HEADER_BYTES = 65_536

# Seconds of one attempt: to connect, between two pieces of the response, and in all, because a slow trickle of bytes
# never reaches the limit of a piece.
TIMEOUT = httpx.Timeout(30, connect=10, pool=None)
LONGEST = 120.0

# The headers that are read. Any of them may be shown or stored.
_HEADERS = ("age", "content-type", "date", "location", "retry-after", "server", "via", "x-correlation-id")

# For zlib: with the header of gzip.
_WITH_GZIP_HEADER = 16 + zlib.MAX_WBITS


class ApiClient:
    """Sends each request once. Use it as an async context manager.

    It uses an httpx transport without httpx's client: redirects, cookies and variables of the environment could each
    send the API key to another server. `concurrency` limits the connections. `paths` are the places of the list and the
    cursor in a media page. Raises ValueError when the base URL or the key is invalid.
    """

    def __init__(
        self,
        base_url: str,
        api_key: SecretStr,
        *,
        clock: Clock,
        network: Network | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        concurrency: int = 16,
        paths: PagePaths = DEFAULT_PATHS,
    ) -> None:
        check_api_key(api_key)
        self._base = check_base_url(base_url)
        self._headers = httpx.Headers(
            {
                "Authorization": f"Bearer {api_key.get_secret_value()}",
                "Accept": "application/json",
                "Accept-Encoding": "gzip",
                "Cache-Control": "no-cache",
                "User-Agent": f"gramhouse/{release()}",
            }
        )
        self._hide = _hiding(api_key)
        self._clock, self._paths = clock, paths
        self._network = network or Network()
        self._transport = transport or open_transport(self._network, concurrency)
        self._answers = Memory()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.aclose()

    async def send(self, request: ApiRequest) -> Response:
        """Make one attempt at a request. Raises only ApiError, from which the API key cannot be reached."""
        url, status, headers, body = self._base + request.target, None, dict[str, str](), None
        code, message = "body_too_large_response", f"the response is larger than {MAX_BODY_BYTES} bytes"
        try:
            async with asyncio.timeout(LONGEST):
                sent = httpx.Request("GET", url, headers=self._headers, extensions={"timeout": TIMEOUT.as_dict()})
                answer = await self._transport.handle_async_request(sent)
                status, given = answer.status_code, answer.headers
                # A gateway may repeat the request, with its key, in headers and error bodies.
                headers = {name: self._hide_text(given[name]) for name in _HEADERS if name in given}
                try:
                    body = await self._read_body(answer)
                finally:
                    await answer.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, zlib.error) as error:
            server, is_begun = urlsplit(self._base).netloc, status is not None
            code, message = _explain(error, server, self._network.proxy, is_begun=is_begun)
        if status is None or (body is None and status == 200):
            # Not raised in the `except` block: the exception references the request and its key.
            message, trace = self._hide_text(message), read_correlation_id(headers)
            raise ApiError(request.operation, code, message, status=status, correlation_id=trace)
        # An error response without its body still has a status and Retry-After.
        now, paths, hide = self._clock.now(), self._paths, self._hide
        response = read_response(request, status, headers, body or b"", now=now, paths=paths, hide=hide)
        # A cache repeats the id of the answer that it kept. If it has just asked the service again, its Age is 0.
        is_repeated = response.correlation_id is not None and not self._answers.remember(response.correlation_id)
        if is_repeated or headers.get("age", "").strip() not in {"", "0"}:
            why = "a cache answered, not the service: the answer has an Age, or the correlation id of an earlier one"
            raise response.error("cached_answer", why)
        return response

    async def _read_body(self, answer: httpx.Response) -> bytes | None:
        """Read a body, without gzip; None if it is too large after decompression.

        Other codings than the accepted one are left, and fail where the page is read. Bytes after the compressed ones
        are ignored, and an end that is missing shows in the page.
        """
        codings = answer.headers.get("content-encoding", "").lower()
        decoder = zlib.decompressobj(_WITH_GZIP_HEADER) if "gzip" in re.split(r"\W+", codings) else None
        body, most = bytearray(), MAX_BODY_BYTES if answer.status_code == 200 else _MAX_ERROR_BYTES
        async for piece in answer.aiter_raw():
            body += piece if decoder is None else decoder.decompress(piece, most + 1 - len(body))
            if len(body) > most:
                return None
        return bytes(body)

    def _hide_text(self, text: str) -> str:
        return self._hide(text.encode(errors="surrogateescape")).decode(errors="replace")


def _hiding(api_key: SecretStr) -> Callable[[bytes], bytes]:
    """Return what replaces a key by `***`, as it is or with characters that JSON or a URL escapes, also twice."""
    forms = (
        rf"(?:\\{{0,4}}{re.escape(char)}|(?i:\\{{1,4}}u{ord(char):04x}|%(?:25)?{ord(char):02x}))"
        for char in api_key.get_secret_value()
    )
    pattern, shortest = re.compile("".join(forms).encode()), len(api_key)
    # No form is shorter than the key; most headers are.
    return lambda content: content if len(content) < shortest else pattern.sub(b"***", content)


def open_transport(network: Network, concurrency: int) -> httpx.AsyncBaseTransport:
    """Return a transport over aiohttp's connections, with changes to its defaults (docs/decisions.md)."""
    certificates = network.certificates or httpx.create_ssl_context(trust_env=False)

    def open_session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=concurrency, ssl=certificates),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            proxy=network.proxy_url.get_secret_value() if network.proxy_url else None,
        )

    return AiohttpTransport(verify=certificates, trust_env=False, client=open_session)


class _Connector(aiohttp.TCPConnector):
    """Reuses no connection on which unrequested data arrived: it would be read as the response to the next request."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as its base
        super().__init__(**options)
        self._used: WeakSet[Any] = WeakSet()

    async def connect(self, *request: Any, **options: Any) -> Connection:  # noqa: ANN401 - as its base
        """Return a new connection, or a kept one that may be used again."""
        while True:
            connection = await super().connect(*request, **options)
            protocol: Any = connection.protocol
            if protocol not in self._used or not protocol.should_close:
                self._used.add(protocol)
                return connection
            connection.close()


# The code in `RULES` and the text of an error; the first row that matches is used. The classes are aiohttp's, from
# which its httpx transport raises each error of httpx: it reports both refused and reset connections as ConnectTimeout.
_UNREACHED = "connection_failed", "cannot connect to {server}"
_CLOSED = "connection_reset", "{server} closed the connection before it answered"
_ROWS: tuple[tuple[type[BaseException], tuple[str, str]], ...] = (
    (ssl.CertificateError, ("certificate_refused", "the certificate of {server} is not trusted")),
    (aiohttp.ConnectionTimeoutError, ("timeout", "{server} did not accept the connection in time")),
    (TimeoutError, ("timeout", "{server} did not answer in time")),
    (aiohttp.ClientConnectorError, _UNREACHED),
    (aiohttp.ClientConnectionError, _CLOSED),
    (ConnectionError, _CLOSED),
    (aiohttp.ClientHttpProxyError, ("proxy_refused", "cannot connect to {server}")),
    (aiohttp.ClientResponseError, ("protocol_error", "{server} answered with something that is not HTTP")),
)

_ERRNO = re.compile(r"\[Errno (\d+)\]")
_ALERT = re.compile(r"\[SSL: (\w+)\]")


def _explain(error: Exception, server: str, proxy: str, *, is_begun: bool) -> tuple[str, str]:
    """Return the code in `RULES` for an exception, and one line that names the server and the cause, and no library.

    `is_begun`: the response's headers had arrived.
    """
    cause: BaseException = error
    while isinstance(cause.__cause__, aiohttp.ClientError):
        cause = cause.__cause__
    # The error of the system or of TLS, which aiohttp wraps.
    inner = getattr(cause, "certificate_error", None) or getattr(cause, "os_error", None) or cause
    code, text = next((row for kind, row in _ROWS if isinstance(cause, kind)), _UNREACHED)
    if is_begun and code != "timeout":
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
