"""The key is sent to the host of the base URL only."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient
from connectors.source.errors import ApiError, Disposition
from connectors.source.messages import accounts_request, feed_request
from models.feeds import FEEDS
from tests.clocks import WakefulClock
from tests.servers import Stage, http, saying

pytestmark = pytest.mark.anyio
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
    named = [header.split(":", 1)[0].lower() for header in headers]
    assert sorted(named) == ["accept", "accept-encoding", "authorization", "cache-control", "host", "user-agent"]
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
