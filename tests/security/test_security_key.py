"""Error messages of the API are shown and stored, but without the key if they contain it."""

import logging
import ssl
import traceback
from urllib.parse import quote

import httpx
import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient
from connectors.source.errors import ApiError
from connectors.source.messages import accounts_request
from tests.clocks import WakefulClock
from tests.security.canary import KEY, echoes, envelope, tells

pytestmark = pytest.mark.anyio
PAGE = b'{"items":[],"next_cursor":null}'
TRACE = "0123456789ABCDEFGHJKMNPQRS"
REQUEST = accounts_request(None, 50)


def _client(answer: httpx.Response | Exception, key: str = KEY) -> ApiClient:
    def reply(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        # The client reads a stream.
        stream = httpx.ByteStream(answer.content)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)

    return ApiClient("https://api.example", SecretStr(key), clock=WakefulClock(), transport=httpx.MockTransport(reply))


ECHOES: dict[str, httpx.Response | Exception] = {
    **{
        name: httpx.Response(status, headers=given, content=body) for name, (status, given, body) in echoes(KEY).items()
    },
    "reset": httpx.ReadError(f"while sending Authorization: Bearer {KEY}"),
    "broken HTTP": httpx.RemoteProtocolError(f"400, message='Invalid header: Bearer {KEY}'"),
    "reason": httpx.Response(403, extensions={"reason_phrase": f"No {KEY}".encode()}, content=b"<"),
    "certificate": ssl.SSLCertVerificationError(f"no certificate for {KEY}.example"),
}


def test_the_search_knows_every_spelling_of_the_key() -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in KEY)
    upper = "".join(f"\\u{ord(char):04X}" for char in KEY)
    signs = KEY.replace("+", "\\u002b").replace("/", "\\u002f").replace("=", "\\u003d")
    percent = quote(KEY, safe="")
    for text in (KEY, quote(KEY), percent, percent.lower(), KEY.replace("/", "\\/"), escaped, upper, signs):
        assert tells(f"Bearer {text}!", KEY)
        assert not tells(text, "another" + KEY[::-1])


async def _message(client: ApiClient, caplog: pytest.LogCaptureFixture) -> str:
    """The text of an error, its chain, and the logs at debug level."""
    with caplog.at_level(logging.DEBUG), pytest.raises(ApiError) as caught:
        async with client:
            await client.send(REQUEST)
    error = caught.value
    logging.getLogger("flows").warning("%s %r", error, error)
    chain = "".join(traceback.format_exception(error))
    return "\n".join([chain, repr(error), repr(vars(error)), repr(client), caplog.text])


@pytest.mark.parametrize("name", ECHOES)
async def test_an_error_never_repeats_the_key(name: str, caplog: pytest.LogCaptureFixture) -> None:
    output = await _message(_client(ECHOES[name]), caplog)
    assert "ApiError" in output
    assert name != "message" or "no such key: Bearer ***" in output
    assert not tells(output, KEY)
    assert KEY[:12] not in output


async def test_a_page_instead_of_an_envelope_is_not_searched_for_long() -> None:
    with pytest.raises(ApiError, match="http_500: a proxy or gateway, not the service"):
        await _client(httpx.Response(500, content=envelope("x" * 1_000_000))).send(REQUEST)


async def test_a_correlation_id_that_equals_the_key_is_ignored() -> None:
    client = _client(httpx.Response(200, headers={"x-correlation-id": TRACE}, content=PAGE), key=TRACE)
    assert (await client.send(REQUEST)).correlation_id is None


@pytest.mark.parametrize("key", [f"{KEY}\nx", f"{KEY} x", f"{KEY}\r\nX-Evil: 1", f"{KEY}é", f"{KEY}\x00", f"{KEY}\t"])
def test_a_key_that_is_invalid_in_a_header_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="characters that are invalid in a header") as caught:
        _client(httpx.Response(200), key)
    assert not tells(str(caught.value), KEY)
