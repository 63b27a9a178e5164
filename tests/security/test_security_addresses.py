"""Which base URLs are accepted, and that requests go to exactly the accepted host."""

from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from yarl import URL

from connectors.source.client import ApiClient
from connectors.source.errors import ApiError
from connectors.source.messages import accounts_request
from connectors.source.network import check_base_url
from tests.clocks import WakefulClock

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("given", "used"),
    [
        *(
            (spelling, "https://api.example")
            for spelling in (
                *("https://api.example", "HTTPS://API.Example/", "https://api.example:443"),
                *("https://api.example./api/v1", "https://Api.example:443/api/v1/"),
            )
        ),
        ("HTTPS://API.example:8443/a/B//", "https://api.example:8443/a/B"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:80/x", "http://[::1]/x"),
        ("https://api.example/prefix/api/v1", "https://api.example/prefix"),
        ("https://api.example/api/v10", "https://api.example/api/v10"),
        ("https://api.example/a/../b", "https://api.example/b"),
    ],
)
def test_an_address_has_one_spelling(given: str, used: str) -> None:
    assert check_base_url(given) == used == check_base_url(used)


@pytest.mark.parametrize(
    "url",
    ["", "api.example", "https://", "https://.", "https:///api.example", "https://me:evil@api.example",
     "https://api.example/?a=evil", "https://api.example/#", "https://api.example:99999", "https://xn--a.example",
     f"https://{'a' * 64}.example", "https://api .example", "https://api.example\\@evil.example",
     "https://good.example:443@evil.example", "https://good.ex\u0430mple", "https://good.example\u3002evil.example",
     "https://good.example\u2044@evil.example", "https://good.example\r\nHost: evil.example", "https://[evil.example]",
     "https://good.example:443:80", "javascript:alert(1)", "file:///etc/passwd", "http://[::1]evil.example",
     "https://a%2f.b"],
)  # fmt: skip
def test_an_address_that_may_mean_another_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the base URL") as caught:
        check_base_url(url)
    assert "evil" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "127.1", "127.0.0.1.", "2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "localhost.",
     "localhost.evil.example", "127.0.0.1.evil.example", "localhost%2eevil.example", "localhost%00.evil.example",
     "[::]", "[::ffff:192.0.2.1]", "[fe80::1%25lo]", "10.0.0.1", "169.254.169.254", "host.docker.internal"],
)  # fmt: skip
def test_without_tls_only_literal_loopback_addresses_are_accepted(host: str) -> None:
    with pytest.raises(ValueError, match="the base URL"):
        check_base_url(f"http://{host}")
    assert check_base_url("http://127.0.0.1:8000/x/") == "http://127.0.0.1:8000/x"


_PIECES = st.text(st.sampled_from("aé.-:/@#?%[]\\;,&=|~^<>'\"0123456789x ") | st.characters(), max_size=12)


@settings(max_examples=100, deadline=None)
@given(scheme=st.sampled_from(["https://", "http://", "HTTPS://"]), before=_PIECES, after=_PIECES)
@example(scheme="http://", before="[::1]", after="evil.example")
@example(scheme="https://", before="good.example%2f", after=".evil.example")
async def test_an_accepted_url_is_requested_exactly(scheme: str, before: str, after: str) -> None:
    url = f"{scheme}{before}good.example{after}"
    try:
        host = urlsplit(check_base_url(url)).hostname
    except ValueError:
        return
    received: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        received.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(b'{"items":[],"next_cursor":null}'))

    async with ApiClient(
        url, SecretStr("a-key"), clock=WakefulClock(), transport=httpx.MockTransport(answer)
    ) as client:
        with suppress(ApiError):
            await client.send(accounts_request(None, 50))
    # As aiohttp, whose connections are used, reads it.
    for asked in (URL(str(request.url)) for request in received):
        assert (asked.raw_host, asked.user, asked.password) == (host, None, None)
        assert asked.path.endswith("/api/v1/accounts")
