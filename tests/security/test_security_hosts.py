"""Which base URLs are accepted; requests go to exactly that host, and the key to no other."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from yarl import URL

from connectors.source.client import ApiClient
from connectors.source.errors import ApiError, Disposition
from connectors.source.messages import accounts_request, feed_request
from connectors.source.network import check_base_url
from models.feeds import FEEDS
from tests.clocks import WakefulClock
from tests.servers import Stage, http, saying

pytestmark = pytest.mark.anyio


def test_an_address_has_one_spelling() -> None:
    for spelled, used in (
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
    ):
        assert check_base_url(spelled) == used == check_base_url(used)


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


KEY = "cnry7Zq4f1e9bXw"


def _client(url: str) -> ApiClient:
    return ApiClient(url, SecretStr(KEY), clock=WakefulClock())


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with Stage(saying(http())).open() as opened:
        yield opened


@pytest.fixture
async def evil() -> AsyncIterator[Stage]:
    """A second server, which must never receive a request."""
    async with Stage(saying(http())).open() as opened:
        yield opened
        assert opened.heads == []


@pytest.mark.parametrize("status", ["301 X", "307 X", "399 X"])
@pytest.mark.parametrize("where", ["{evil}/api/v1/accounts", "//{host}/x", "{own}/api/v1/accounts"])
async def test_no_redirect_is_followed(stage: Stage, evil: Stage, status: str, where: str) -> None:
    location = where.format(evil=evil.url, host=evil.url.removeprefix("http://"), own=stage.url)

    stage.play = saying(http(status, b"", location=location, refresh=f"0; url={evil.url}", content_location=evil.url))
    async with _client(stage.url) as client:
        with pytest.raises(ApiError) as caught:
            await client.send(accounts_request(None, 50))
    failure = caught.value
    assert (failure.code, failure.rule.disposition) == ("redirect", Disposition.RETRY)
    assert len(stage.heads) == 1


CURSORS = (
    *("https://evil.example/api/v1/accounts?cursor=2", "//evil.example/x", "@evil.example", ".evil.example"),
    *("\r\nHost: evil.example\r\nX-Evil: 1", "x HTTP/1.1\r\nHost: evil.example\r\n\r\nGET /", "../../../../etc/passwd"),
    *("&limit=1&cursor=other#frag", "%2F%2Fevil.example%0d%0a", "\x00\x1b[31m\u202e\u2028é🎈", "%", "c" * 1024),
    "$'()*~[]{}|\\^`\"<>;,:@!",
)


@pytest.mark.parametrize("cursor", CURSORS)
async def test_a_cursor_is_only_one_parameter_of_the_next_request(stage: Stage, cursor: str) -> None:
    async with _client(stage.url) as client:
        await client.send(feed_request(FEEDS["posts"], "an-id", cursor, 50))
    [head] = stage.heads
    line, *headers = head.rstrip("\r\n").split("\r\n")
    method, target, version = line.split(" ")
    assert (method, version) == ("GET", "HTTP/1.1")
    assert urlsplit(target).path == "/api/v1/accounts/an-id/media"
    sent = [("surface", "posts"), ("cursor", cursor), ("limit", "50")]
    assert parse_qsl(urlsplit(target).query, strict_parsing=True) == sent
    assert f"host: {stage.url.removeprefix('http://')}" in headers


async def test_the_environment_sends_the_key_nowhere_else(
    stage: Stage, evil: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, evil.url)
    monkeypatch.setenv("NO_PROXY", "")
    netrc = tmp_path / "netrc"
    netrc.write_text("default login thief password stolen\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_bytes(netrc.read_bytes())
    (tmp_path / ".netrc").chmod(0o600)
    async with _client(stage.url) as client:
        await client.send(accounts_request(None, 50))
    [head] = stage.heads
    assert f"\r\nauthorization: Bearer {KEY}\r\n" in head
    assert head.startswith("GET /api/v1/accounts?limit=50 HTTP/1.1\r\n")
