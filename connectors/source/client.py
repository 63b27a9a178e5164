"""The HTTP client of the API: sends a request, returns a page or raises an ApiError."""

import asyncio
import math
import ssl
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Final, Self, cast
from urllib.parse import quote

import aiohttp
import httpx
from pydantic import SecretStr

from connectors.source.base_url import check_base_url
from connectors.source.body import BodyError, BoundedBody
from connectors.source.connection_errors import code_of, describe
from connectors.source.endpoints import ApiRequest, Response, read_correlation_id, read_response
from connectors.source.errors import ApiError, client_error
from connectors.source.redaction import RedactedHeaders, Redaction
from connectors.source.transport import transport as aiohttp_transport
from models.clock import Clock
from models.media_page import DEFAULT_PATHS, PagePaths

MAX_BODY_BYTES: Final = 64 * 1024 * 1024

_CAUGHT = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, BodyError)


# An error envelope (API 2) is far smaller; what is larger is a page of something else, of which nothing is shown.
_MAX_REFUSAL_BYTES: Final = 256 * 1024

_REDIRECT: Final = "redirect"


class _NoCookies(httpx.Cookies):
    """Keeps no cookie."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Ignore what an answer sets."""


_NO_COOKIES: Final = _NoCookies()


class _Client(httpx.AsyncClient):
    """Looks for no cookies: httpx would, in every answer, even where none is kept."""

    @property  # type: ignore[misc]  # none may be set
    def cookies(self) -> httpx.Cookies:
        """Return the same empty jar always."""
        return _NO_COOKIES


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds one attempt may take: to connect, between two pieces of the answer, and as a whole."""

    connect: float = 10.0
    read: float = 30.0
    total: float = 120.0


class ApiClient:
    """Sends requests, each once, as an async context manager.

    No redirect is followed and no cookie, proxy or environment variable used: each could send the key elsewhere.
    `concurrency` bounds the connections, `max_body_bytes` an answer after decompression; `certificates` replaces the
    public ones, `paths` say where the list and the cursor of a media page lie.
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
        paths: PagePaths = DEFAULT_PATHS,
    ) -> None:
        self._paths = paths
        self._base = check_base_url(base_url)
        self._base_url = httpx.URL(self._base)
        self._api_key = api_key
        self._headers = httpx.Headers(_headers(api_key))
        self._redaction = Redaction(api_key)
        self._clock = clock
        self._timeout = timeout or Timeouts()
        secure = self._base_url.scheme == "https"
        self._http = _Client(
            transport=transport or aiohttp_transport(secure=secure, concurrency=concurrency, certificates=certificates),
            timeout=httpx.Timeout(self._timeout.read, connect=self._timeout.connect, pool=None),
            event_hooks={"response": [_save_redirect]},
            trust_env=False,
        )
        self._max_body_bytes = max_body_bytes

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def send(self, request: ApiRequest) -> Response:
        """Make one attempt at a request; raises only ApiError, of which nothing leads to the key."""
        got = await self._exchange(request)
        if isinstance(got, ApiError):
            # Not inside an `except`: what the transport raises holds the request, and with it the key.
            try:
                raise got
            finally:
                # Its traceback holds this frame: the two would keep each other.
                del got
        return self._read(request, *got)

    async def _exchange(self, request: ApiRequest) -> tuple[httpx.Response, bytes] | ApiError:
        outgoing, answer = self._outgoing(request), None
        try:
            # A slow trickle of bytes passes every read timeout; the attempt as a whole ends.
            async with asyncio.timeout(self._timeout.total) as attempt:
                answer = await self._http.send(outgoing, stream=True)
                try:
                    return answer, await self._body(answer, attempt)
                finally:
                    await answer.aclose()
        except _CAUGHT as error:
            answer = answer or outgoing.extensions.get(_REDIRECT)
            if answer is not None and answer.status_code != 200:
                # A refusal whose body is lost is still that refusal, with its Retry-After.
                return answer, b""
            return self._failure(request, error, answer)

    def _outgoing(self, request: ApiRequest) -> httpx.Request:
        query = "&".join([f"{name}={quote(value, safe='')}" for name, value in request.params])
        return httpx.Request("GET", f"{self._base}{request.path}?{query}", headers=self._headers)

    async def _body(self, answer: httpx.Response, attempt: asyncio.Timeout) -> bytes:
        body = BoundedBody(answer.headers.get("content-encoding", ""), self._max_body_bytes)
        clock = asyncio.get_running_loop().time
        end, read = attempt.when() or math.inf, self._timeout.read
        # aiohttp drops its own read timeout when it closes a connection because of malformed chunks.
        attempt.reschedule(min(end, clock() + read))
        # Past httpx's decoders, which know no bounds; `AsyncClient.send` has made sure that the stream is of this type.
        async for piece in cast("httpx.AsyncByteStream", answer.stream):
            body.add(piece)
            attempt.reschedule(min(end, clock() + read))
        return body.whole()

    def _read(self, request: ApiRequest, answer: httpx.Response, body: bytes) -> Response:
        # What a refusal says is shown and kept, as are some headers of any answer; a proxy may repeat what it refused.
        headers = RedactedHeaders(answer.headers, self._redaction)
        if answer.status_code != 200:
            body = self._redaction.of_bytes(body if len(body) <= _MAX_REFUSAL_BYTES else b"")
        return read_response(
            request,
            answer.status_code,
            headers,
            body,
            now=self._clock.now(),
            paths=self._paths,
            hide=self._redaction.of_bytes,
        )

    def _failure(self, request: ApiRequest, error: Exception, answer: httpx.Response | None) -> ApiError:
        cause: BaseException = error
        while isinstance(cause.__cause__, aiohttp.ClientError):
            cause = cause.__cause__
        code = code_of(cause, begun=answer is not None)
        return client_error(
            request.operation,
            code,
            self._redaction.of_text(describe(cause, code, self._base_url)),
            status=answer.status_code if answer else None,
            correlation_id=read_correlation_id(answer.headers) if answer else None,
        )


async def _save_redirect(answer: httpx.Response) -> None:
    # httpx reads the address of a redirect even when it does not follow it, and raises when it cannot.
    if answer.has_redirect_location:
        answer.request.extensions[_REDIRECT] = answer


def _headers(api_key: SecretStr) -> dict[str, str]:
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        message = "the API key is empty or contains characters that are invalid in a header, such as a line break"
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
