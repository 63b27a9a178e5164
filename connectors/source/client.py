"""The one door to the network: a request leaves, a page or an ApiError comes back."""

import asyncio
import re
import ssl
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr

from connectors.source.address import check_base_url
from connectors.source.body import BodyError, BodyTooLarge, BoundedBody
from connectors.source.endpoints import ApiRequest, Response, read_correlation_id, read_response
from connectors.source.errors import ApiError, trouble
from models.clock import Clock

MAX_BODY_BYTES: Final = 64 * 1024 * 1024

_CAUGHT = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, BodyError)

# The first row that fits decides; aiohttp's classes are told apart here because its httpx transport calls a
# refused connection and a reset one both a ConnectTimeout.
_CODES: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((ssl.CertificateError, aiohttp.ServerFingerprintMismatch), "certificate_refused"),
    ((TimeoutError,), "timeout"),
    ((aiohttp.ClientConnectorError,), "connection_failed"),
    ((aiohttp.ClientConnectionError, ConnectionError), "connection_reset"),
    ((aiohttp.ClientPayloadError,), "cut_body"),
    ((aiohttp.ClientResponseError,), "protocol_error"),
    ((httpx.TimeoutException,), "timeout"),
    ((httpx.ReadError, httpx.WriteError, httpx.CloseError), "connection_reset"),
    ((httpx.ProtocolError, httpx.DecodingError), "protocol_error"),
    ((Exception,), "connection_failed"),
)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds one attempt may take: to connect, between two pieces of the answer, and as a whole."""

    connect: float = 10.0
    read: float = 30.0
    total: float = 120.0


class ApiClient:
    """Sends requests, each once, as an async context manager.

    It speaks to the transport itself: without an httpx client around it there are no redirects, cookies,
    proxies or environment variables that could carry the key elsewhere. `concurrency` bounds the
    connections, `max_body_bytes` an answer after decompression; `certificates` replaces the public ones.
    Raises ValueError when the base URL or the key cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        api_key: SecretStr,
        *,
        clock: Clock,
        transport: httpx.AsyncBaseTransport | None = None,
        concurrency: int = 16,
        timeout: Timeouts | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._base_url = check_base_url(base_url)
        self._api_key = api_key
        self._headers = _headers(api_key)
        self._repeated = _spellings(api_key)
        self._clock = clock
        self._transport = transport or _aiohttp_transport(concurrency, certificates)
        self._timeout = timeout or Timeouts()
        self._max_body_bytes = max_body_bytes

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def send(self, request: ApiRequest) -> Response:
        """Make one attempt at a request; raises only ApiError, of which nothing leads to the key."""
        got = await self._exchange(request)
        if isinstance(got, ApiError):
            # Not inside an `except`: what the transport raises holds the request, and with it the key.
            raise got
        return self._read(request, *got)

    async def _exchange(self, request: ApiRequest) -> tuple[httpx.Response, bytes] | ApiError:
        answer: httpx.Response | None = None
        try:
            # A drip of bytes passes every read timeout; the attempt as a whole ends.
            async with asyncio.timeout(self._timeout.total):
                answer = await self._transport.handle_async_request(self._outgoing(request))
                try:
                    return answer, await self._body(answer)
                finally:
                    await answer.aclose()
        except _CAUGHT as error:
            if answer is not None and answer.status_code != 200:
                # A refusal whose body is lost is still that refusal, with its Retry-After.
                return answer, b""
            return self._failure(request, error, answer)

    def _outgoing(self, request: ApiRequest) -> httpx.Request:
        query = urlencode(request.params, quote_via=quote, safe="")
        limits = {"connect": self._timeout.connect, "read": self._timeout.read, "write": self._timeout.read}
        return httpx.Request(
            "GET",
            f"{self._base_url}{request.path}?{query}",
            headers=self._headers,
            extensions={"timeout": limits},
        )

    async def _body(self, answer: httpx.Response) -> bytes:
        body = BoundedBody(answer.headers.get("content-encoding", ""), self._max_body_bytes)
        if not isinstance(answer.stream, httpx.AsyncByteStream):
            message = "the transport answers an async request with a blocking stream"
            raise TypeError(message)
        loop = asyncio.get_running_loop()
        # aiohttp forgets its own read timeout when it closes a connection on chunks that are none.
        async with asyncio.timeout(self._timeout.read) as patience:
            async for piece in answer.stream:
                body.add(piece)
                patience.reschedule(loop.time() + self._timeout.read)
        return body.whole()

    def _read(self, request: ApiRequest, answer: httpx.Response, body: bytes) -> Response:
        # What a refusal says is shown and kept, as are some headers of any answer; a proxy may repeat what it refused.
        headers = {name: self._hide(value) for name, value in answer.headers.items()}
        if answer.status_code != 200:
            body = self._repeated.sub(b"***", body)
        return read_response(request, answer.status_code, headers, body, now=self._clock.now())

    def _hide(self, text: str) -> str:
        return self._repeated.sub(b"***", text.encode(errors="surrogateescape")).decode(errors="surrogateescape")

    def _failure(self, request: ApiRequest, error: Exception, answer: httpx.Response | None) -> ApiError:
        cause = error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError | OSError) else error
        code = _code(cause, begun=answer is not None)
        text = f"{type(cause).__name__}: {str(cause) or 'no whole answer in time'}"
        return trouble(
            request.operation,
            code,
            self._hide(text),
            status=answer.status_code if answer else None,
            correlation_id=read_correlation_id(answer.headers) if answer else None,
        )


def _code(cause: BaseException, *, begun: bool) -> str:
    if isinstance(cause, BodyTooLarge):
        return "body_too_large_response"
    code = next(code for kinds, code in _CODES if isinstance(cause, kinds))
    return "cut_body" if begun and code != "timeout" else code


def _spellings(api_key: SecretStr) -> re.Pattern[bytes]:
    """Match the key as it may be repeated: plain, or with any of its characters escaped as in JSON or in a URL."""
    key = api_key.get_secret_value()
    either = (rf"(?:\\{{0,4}}{re.escape(char)}|(?i:\\{{1,4}}u{ord(char):04x}|%(?:25)?{ord(char):02x}))" for char in key)
    return re.compile("".join(either).encode())


def _headers(api_key: SecretStr) -> dict[str, str]:
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        message = "the API key is empty or holds characters that no header can carry (a line break, say)"
        raise ValueError(message)
    try:
        release = version("gramhouse")
    except PackageNotFoundError:
        release = "unreleased"
    return {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
        "User-Agent": f"gramhouse/{release}",
    }


class _WaryConnector(aiohttp.TCPConnector):
    """Keeps connections, but none on which something was said that nobody had asked for.

    aiohttp would take it for the next answer: a page of something else, or a refusal that is none of ours.
    """

    async def _get(self, key: Any, traces: Any) -> Any:  # noqa: ANN401 - aiohttp's own types, which it does not publish
        kept = self._conns.get(key, ())
        for entry in [entry for entry in kept if entry[0].should_close]:
            self._conns[key].remove(entry)
            entry[0].close()
        return await super()._get(key, traces)


def _aiohttp_transport(concurrency: int, certificates: ssl.SSLContext | None) -> AiohttpTransport:
    certificates = certificates or httpx.create_ssl_context(trust_env=False)

    def session() -> aiohttp.ClientSession:
        made = aiohttp.ClientSession(
            connector=_WaryConnector(limit=concurrency, ssl=certificates),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        # It would ask again by itself when a connection breaks: at once, and unseen by whoever counts the tries.
        made._retry_connection = False  # noqa: SLF001 - there is no setting for it
        return made

    return AiohttpTransport(verify=certificates, trust_env=False, client=session)
