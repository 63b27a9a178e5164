"""The HTTP client of the API: sends a request, returns a page or raises an ApiError."""

import asyncio
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urlsplit

import aiohttp
import httpx
from pydantic import SecretStr

from connectors.source.base_url import check_api_key, check_base_url
from connectors.source.endpoints import ApiRequest
from connectors.source.errors import ApiError
from connectors.source.memory import Memory
from connectors.source.network import Network
from connectors.source.responses import Response, read_correlation_id, read_response
from connectors.source.transport import explain, open_transport
from models import release
from models.api import DEFAULT_PATHS, PagePaths
from models.files import Clock

MAX_BODY_BYTES: Final = 64 * 1024 * 1024

# An error envelope (API 2) is far smaller. A larger body is something else, and none of it is shown.
_MAX_REFUSAL_BYTES: Final = 256 * 1024

_GZIP: Final = frozenset({"gzip", "x-gzip"})
# For zlib: with the header of gzip.
_WITH_GZIP_HEADER: Final = 16 + zlib.MAX_WBITS

# The headers that are read. Any of them may be shown or stored.
_HEADERS: Final = ("age", "content-type", "date", "location", "retry-after", "server", "via", "x-correlation-id")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of one attempt in seconds: to connect, between two pieces of the response, and in total."""

    connect: float = 10.0
    read: float = 30.0
    total: float = 120.0


def _hiding(api_key: SecretStr) -> Callable[[bytes], bytes]:
    """Return what replaces a key by `***`, as it is or with characters that JSON or a URL escapes, also twice."""
    forms = (
        rf"(?:\\{{0,4}}{re.escape(char)}|(?i:\\{{1,4}}u{ord(char):04x}|%(?:25)?{ord(char):02x}))"
        for char in api_key.get_secret_value()
    )
    pattern, shortest = re.compile("".join(forms).encode()), len(api_key)
    # No form is shorter than the key; most headers are.
    return lambda content: content if len(content) < shortest else pattern.sub(b"***", content)


class ApiClient:
    """Sends each request once. Use it as an async context manager.

    It uses an httpx transport without httpx's client: redirects, cookies and variables of the environment could each
    send the API key to another server. `concurrency` limits the connections, `max_body_bytes` the size of a response
    after decompression. `paths` are the places of the list and the cursor in a media page.

    Raises ValueError when the base URL or the key is invalid.
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
        timeout: Timeouts | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
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
        self._clock = clock
        limits = timeout or Timeouts()
        self._seconds = limits.total
        self._extensions = {"timeout": httpx.Timeout(limits.read, connect=limits.connect, pool=None).as_dict()}
        self._paths = paths
        self._network = network or Network()
        self._transport = transport or open_transport(self._network, concurrency)
        self._max_body_bytes = max_body_bytes
        self._answers = Memory()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def send(self, request: ApiRequest) -> Response:
        """Make one attempt at a request. Raises only ApiError, from which the API key cannot be reached."""
        answer, body = await self._exchange(request)
        # A gateway may repeat the request, with its key, in headers and error bodies.
        headers = {name: self._hide_text(text) for name, text in answer.headers.items() if name in _HEADERS}
        response = read_response(
            request,
            answer.status_code,
            headers,
            body if answer.status_code == 200 else self._hide(body),
            now=self._clock.now(),
            paths=self._paths,
            hide=self._hide,
        )
        # A cache repeats the id of the answer that it kept.
        is_repeated = response.correlation_id is not None and not self._answers.remember(response.correlation_id)
        return replace(response, is_cached=True) if is_repeated else response

    async def _exchange(self, request: ApiRequest) -> tuple[httpx.Response, bytes]:
        query = "&".join([f"{name}={quote(value, safe='')}" for name, value in request.params])
        url, answer = f"{self._base}{request.path}?{query}", None
        try:
            # A slow trickle of bytes never reaches the read timeout, so the whole attempt is limited too.
            async with asyncio.timeout(self._seconds):
                sent = httpx.Request("GET", url, headers=self._headers, extensions=self._extensions)
                answer = await self._transport.handle_async_request(sent)
                try:
                    body = await self._read_body(answer)
                finally:
                    await answer.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, zlib.error) as error:
            body = None
            code, message = explain(error, urlsplit(self._base).netloc, self._network.proxy, begun=answer is not None)
        else:
            code, message = "body_too_large_response", f"the response is larger than {self._max_body_bytes} bytes"
        if answer is not None and body is not None:
            return answer, body
        if answer is not None and answer.status_code != 200:
            # An error response without its body still has a status and Retry-After.
            return answer, b""
        # Not raised in the `except` block: the transport's exception references the request and its key.
        raise ApiError(
            request.operation,
            code,
            self._hide_text(message),
            status=answer.status_code if answer else None,
            correlation_id=read_correlation_id(answer.headers) if answer else None,
        )

    async def _read_body(self, answer: httpx.Response) -> bytes | None:
        """Read a body, without gzip; None if it is too large after decompression.

        Other codings than the accepted one are left, and fail where the page is read. Bytes after the compressed ones
        are ignored, and an end that is missing shows in the page.
        """
        assert isinstance(answer.stream, httpx.AsyncByteStream)  # noqa: S101 - for mypy
        codings = {coding.lower() for coding in answer.headers.get_list("content-encoding", split_commas=True)}
        decoder = zlib.decompressobj(_WITH_GZIP_HEADER) if codings & _GZIP else None
        body, most = bytearray(), self._max_body_bytes if answer.status_code == 200 else _MAX_REFUSAL_BYTES
        async for piece in answer.stream:
            body += piece if decoder is None else decoder.decompress(piece, most + 1 - len(body))
            if len(body) > most:
                return None
        return bytes(body)

    def _hide_text(self, text: str) -> str:
        """Return the text without the key; undecodable bytes in it do not change."""
        return self._hide(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")
