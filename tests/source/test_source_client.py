"""One attempt on a real socket, directly or through a proxy: what is sent, and what each lost connection becomes."""

import base64
import gzip
import socket
import ssl
import traceback
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
from httpx import Timeout
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr

from connectors.source.client import ApiClient, open_transport
from connectors.source.errors import ApiError
from connectors.source.messages import feed_request
from connectors.source.network import Network, read_network
from models.feeds import FEEDS
from tests.clocks import WakefulClock
from tests.private_network import BASE_URL, HOST, create_authority, private_network
from tests.servers import Meet, Stage, http, listening, saying

pytestmark = pytest.mark.anyio
KEY = "canary-4f1e9b"
REQUEST = feed_request(FEEDS["posts"], "an-id", None, 50)
LIBRARIES = ("ssl:default", "ssl:True", "Error", "Exception", "aiohttp", "httpx", "Errno", "[SSL", "call failed")


@pytest.fixture
def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time to connect and for an answer."""
    monkeypatch.setattr("connectors.source.client.TIMEOUT", Timeout(0.1))
    monkeypatch.setattr("connectors.source.client.LONGEST", 0.5)


def client(url: str, **options: Any) -> ApiClient:  # noqa: ANN401 - as ApiClient
    return ApiClient(url, SecretStr(KEY), clock=WakefulClock(), **options)


def everything_shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(error) + repr(vars(error))


async def failing(url: str, **options: Any) -> ApiError:  # noqa: ANN401
    """Send a request that fails; return its error, which shows neither the key nor names of libraries."""
    async with client(url, **options) as one:
        with pytest.raises(ApiError) as caught:
            await one.send(REQUEST)
    error = caught.value
    assert KEY not in everything_shown(error)
    assert (error.__cause__, error.__context__) == (None, None)
    assert error.message.isprintable()
    assert not [name for name in LIBRARIES if name in error.message]
    return error


async def described(url: str, **options: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return code and message of a request that fails, with PORT for the port."""
    failure = await failing(url, **options)
    return failure.code, failure.message.replace(url.rpartition(":")[2], "PORT")


async def test_a_request_has_exactly_the_required_headers() -> None:
    play = saying(http(set_cookie="session=abc; Path=/", x_correlation_id=""))
    async with Stage(play).open() as stage:
        # By its name, because no cookies are kept for an address.
        url = stage.url.replace("127.0.0.1", "localhost")
        async with client(f"{url}/pre/fix/") as one:
            for _ in range(2):
                await one.send(REQUEST)
    [head] = {*stage.heads}
    line, *headers = head.strip().split("\r\n")
    assert line == "GET /pre/fix/api/v1/accounts/an-id/media?surface=posts&limit=50 HTTP/1.1"
    named = {name.lower(): value for name, value in (header.split(": ", 1) for header in headers)}
    assert named.pop("user-agent").startswith("gramhouse/")
    assert named == {
        "host": url.removeprefix("http://"),
        "authorization": f"Bearer {KEY}",
        "accept": "application/json",
        "accept-encoding": "gzip",
        "cache-control": "no-cache",
    }


SERVER = "127.0.0.1:PORT"
CLOSED = f"{SERVER} closed the connection before it answered"
LATE = f"{SERVER} did not answer in time"
LARGE = "the response is larger than 10000 bytes"
BOMB = gzip.compress(bytes(10_000_000))
# Faults that depend on time or on the limit, or have a text of their own; tests/conformance has the others.
LOST: dict[str, tuple[Meet, str, str]] = {
    "silent": (saying(then="hang"), "timeout", LATE),
    "reset": (saying(then="reset"), "connection_reset", CLOSED),
    # Each piece arrives in time and would extend a read timeout, and the last one ends the response.
    "a slow drip": (saying(http()[:-40], *[b" "] * 40, pause=0.03), "timeout", LATE),
    "too large": (saying(http(body=b" " * 10_001)), "body_too_large_response", LARGE),
    "a gzip bomb": (saying(http(body=BOMB, content_encoding="gzip")), "body_too_large_response", LARGE),
}


@pytest.mark.parametrize("case", LOST)
async def test_each_lost_connection_has_its_code_and_a_text_with_server_and_cause(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    play, code, message = LOST[case]
    monkeypatch.setattr("connectors.source.client.MAX_BODY_BYTES", 10_000)
    if code == "timeout":
        request.getfixturevalue("hasten")
    async with Stage(play).open() as stage:
        assert await described(stage.url) == (code, message)


async def test_a_page_has_no_key() -> None:
    fields = f'{{"items": [], "next_cursor": null, "{KEY}": 1}}'.encode()
    async with Stage(saying(http(body=fields))).open() as stage, client(stage.url) as one:
        page = (await one.send(REQUEST)).page
    assert ({*page.unknown_fields}, KEY.encode() in page.body) == ({"***"}, False)
    async with Stage(saying(http(body=f"<html>Bearer {KEY}</html>".encode()))).open() as stage:
        assert (await failing(stage.url)).body == b"<html>Bearer ***</html>"


async def test_a_server_that_cannot_be_connected_to(request: pytest.FixtureRequest) -> None:
    code, message = await described("https://no-such-host.invalid:8443")
    assert (code, message.rpartition(": ")[0]) == ("connection_failed", "cannot connect to no-such-host.invalid:PORT")
    with socket.socket() as taken, ExitStack() as waiting:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for scheme, host in (("http", "localhost"), ("https", "127.0.0.1")):
            refused = await described(f"{scheme}://{host}:{port}")
            assert refused == ("connection_failed", f"cannot connect to {host}:PORT: connection refused")
        # Its queue of connections is full.
        taken.listen(0)
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.settimeout(0)
            one.connect_ex(taken.getsockname())
        request.getfixturevalue("hasten")
        late = await described(f"http://127.0.0.1:{port}")
    assert late == ("timeout", f"{SERVER} did not accept the connection in time")


async def test_a_certificate_and_a_scheme_that_are_wrong_are_named(tmp_path: Path) -> None:
    authority, server = create_authority(tmp_path, "other.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    trusting = read_network("https://localhost", {"SSL_CERT_FILE": str(authority)})
    async with listening(saying(then="hang"), context) as port, listening(saying(http(), then="hang")) as plain:
        unknown = await described(f"https://127.0.0.1:{port}")
        other = await described(f"https://localhost:{port}", network=trusting)
        no_tls = await failing(f"http://127.0.0.1:{port}")
        tls = await failing(f"https://127.0.0.1:{plain}")
    why = "unable to get local issuer certificate"
    assert unknown == ("certificate_refused", f"the certificate of {SERVER} is not trusted: {why}")
    assert other[0] == "certificate_refused"
    assert other[1].endswith("Hostname mismatch, certificate is not valid for 'localhost'")
    for error, codes in ((no_tls, {"connection_reset", "protocol_error"}), (tls, {"tls_failed"})):
        assert (error.code in codes, "the scheme (https or http)" in error.rule.hint) == (True, True)


def test_the_public_certificates_are_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The environment replaces them only by way of `Network`.
    (tmp_path / "evil.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "evil.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    transport = open_transport(Network(), 1)
    assert isinstance(transport, AiohttpTransport)
    context = transport.ssl_context
    assert context.cert_store_stats()["x509_ca"] > 0
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_server_that_sends_before_the_request_is_not_connected_to_for_ever() -> None:
    async with listening(saying(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", then="hang")) as port:
        assert (await failing(f"http://127.0.0.1:{port}")).code == "protocol_error"


SERVICE = "https://api.example.com"


def _proxy(url: str, environ: dict[str, str]) -> str:
    return read_network(url, environ).proxy


def test_the_proxy_is_that_of_the_environment() -> None:
    for environ, proxy in (
        ({}, ""),
        ({"HTTPS_PROXY": "http://b:2", "https_proxy": "", "all_proxy": "c:3"}, "b:2 (HTTPS_PROXY)"),
        ({"https_proxy": "proxy"}, "proxy:80 (https_proxy)"),
        ({"https_proxy": "HTTPS://Proxy.Example/x"}, "proxy.example:443 (https_proxy)"),
        ({"https_proxy": " http://user:hunter22@127.0.0.1:8080\n"}, "127.0.0.1:8080 (https_proxy)"),
    ):
        found = read_network(SERVICE, environ)
        assert found.proxy == proxy
        url = found.proxy_url.get_secret_value() if found.proxy_url else ""
        assert ("hunter22" in url, "hunter22" in repr(found)) == ("hunter22" in str(environ), False)


def test_a_proxy_that_cannot_be_used_is_one_line_without_its_address() -> None:
    for address in (
        *("socks5://secret@proxy:1080", "ftp://secret@proxy:21", "http://", "http://secret@", "http://proxy:secret"),
        *("http://proxy:65536", "http://[::1", "http://::1:3128", "http://proxy\r\nX-Evil: 1"),
    ):
        with pytest.raises(ValueError, match=r"^HTTPS_PROXY: .* Fix: ") as caught:
            _proxy(SERVICE, {"HTTPS_PROXY": address})
        assert str(caught.value).isprintable()
        assert "secret" not in str(caught.value)
        # It does not matter where it is not used.
        for url, environ in ((SERVICE, {"NO_PROXY": "*"}), ("http://localhost:1", {}), ("https://127.0.0.1", {})):
            assert _proxy(url, {"HTTPS_PROXY": address, **environ}) == ""


def test_no_proxy_lists_domains_and_addresses_loopback_is_direct() -> None:
    for url, exceptions, is_direct in (
        *((url, "", True) for url in ("https://localhost", "https://127.9.9.9", "https://[::1]:1")),
        *((SERVICE, exceptions, True) for exceptions in ("*", "*,localhost", ".Example.COM", "a,,example.com,")),
        (SERVICE, "a.example b.example\texample.com", True),
        (f"{SERVICE}:8443", "api.example.com:8443", True),
        ("https://10.1.2.3", "10.1.2.3", True),
        *((SERVICE, exceptions, False) for exceptions in ("", "api.example.com:8443", "ple.com", "10.0.0.0/8")),
        *((SERVICE, exceptions, False) for exceptions in ("example.com.evil.example", ". : [ ] / % -")),
    ):
        for name in ("no_proxy", "NO_PROXY"):
            assert (_proxy(url, {"ALL_PROXY": "http://proxy:1", name: exceptions}) == "") is is_direct


def test_certificates_replace_the_public_ones(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    for content in (None, b"", b"-----BEGIN CERTIFICATE-----\nx\n"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ValueError, match=rf"^SSL_CERT_FILE: .*{file}.* Fix: ") as caught:
            read_network(SERVICE, {"SSL_CERT_FILE": str(file)})
        assert str(caught.value).isprintable()
        assert read_network("http://localhost", {"SSL_CERT_FILE": str(file)}).certificates is None
    assert read_network(SERVICE, {"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}).certificates is None
    authority, _ = create_authority(tmp_path, HOST)
    found = read_network(SERVICE, {"SSL_CERT_FILE": str(authority), "SSL_CERT_DIR": "/nowhere"})
    assert found.variables == "SSL_CERT_FILE and SSL_CERT_DIR"
    assert found.certificates is not None
    assert (found.certificates.verify_mode, found.certificates.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not found.certificates.verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize("proxy", ["http://er:hunter22@127.0.0.1", "https://er:hunter22@localhost", "http://localhost"])
async def test_a_proxy_gets_its_credentials_and_not_the_key(tmp_path: Path, proxy: str) -> None:
    is_secure, login = proxy.startswith("https"), base64.b64encode(b"er:hunter22").decode() if "@" in proxy else ""
    async with (
        Stage(saying(http(x_correlation_id=""))).open() as stage,
        private_network(tmp_path, int(stage.url.rpartition(":")[2]), is_secure=is_secure) as network,
    ):
        network.login = login and f"Basic {login}"
        trusted = {"SSL_CERT_DIR": str(tmp_path)} if is_secure else {"SSL_CERT_FILE": str(network.authority)}
        found = read_network(BASE_URL, {"HTTPS_PROXY": f"{proxy}:{network.port}", **trusted})
        async with client(BASE_URL, concurrency=1, network=found) as one:
            for _ in range(3):
                assert len((await one.send(REQUEST)).page.records) == 1
    # One tunnel, kept open.
    [head] = network.heads
    assert head.startswith(f"CONNECT {HOST}:8443 HTTP/1.1\r\n")
    assert (KEY in head, "uthorization" in head) == (False, bool(login))
    assert len(stage.heads) == 3
    for head in map(str.lower, stage.heads):
        assert (f"authorization: bearer {KEY}\r\n" in head, "proxy" in head) == (True, False)


# What the proxy answers, or does, and the end of the message.
REFUSALS = {
    "": ("proxy_refused", "the proxy answered with status 407"),
    "403 user:hunter22 is not allowed": ("proxy_refused", "the proxy answered with status 403"),
    "502 hunter22": ("proxy_refused", "the proxy answered with status 502"),
    "no trust": ("certificate_refused", "unable to get local issuer certificate"),
    "gone": ("connection_failed", "connection refused"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_an_error_of_a_proxy_names_the_proxy_without_credentials(tmp_path: Path, refusal: str) -> None:
    async with AsyncExitStack() as running:
        network = await running.enter_async_context(private_network(tmp_path, 9, is_secure=refusal == "no trust"))
        network.login = "none"
        network.refusal = f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode() if refusal else b""
        if refusal == "gone":
            await running.aclose()
        scheme, place = "https" if refusal == "no trust" else "http", f"localhost:{network.port}"
        found = read_network(BASE_URL, {"HTTPS_PROXY": f"{scheme}://user:hunter22@{place}"})
        error = await failing(BASE_URL, network=found)
    code, end = REFUSALS[refusal]
    assert not [secret for secret in ("hunter22", "Basic") if secret in everything_shown(error)]
    assert (error.code, error.message.endswith(f": {end}")) == (code, True)
    assert f"{HOST}:8443 through the proxy {place} (HTTPS_PROXY)" in error.message
    assert ("SSL_CERT_FILE" in error.rule.hint) is (refusal == "no trust")
