"""The service is reached through the proxy that curl would use, with the certificates of the environment."""

import base64
import ssl
from pathlib import Path

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient, Timeouts
from connectors.source.errors import ApiError, Disposition, Failure
from connectors.source.network import Network, Proxy, read_network
from tests.clocks import WakefulClock
from tests.private_network import BASE_URL, HOST, create_authority, private_network
from tests.servers import Stage, http, saying
from tests.source.test_source_client import KEY, REQUEST, everything_shown

SERVICE = "https://api.example.com"


def _proxy(url: str, environ: dict[str, str]) -> Proxy | None:
    return read_network(url, environ).proxy


@pytest.mark.parametrize(
    ("environ", "server", "variable"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": "http://b:2", "https_proxy": "http://a:1"}, "a:1", "https_proxy"),
        ({"HTTPS_PROXY": "http://b:2", "https_proxy": "", "all_proxy": "c:3"}, "b:2", "HTTPS_PROXY"),
        ({"https_proxy": "proxy"}, "proxy:80", "https_proxy"),
        ({"https_proxy": "HTTPS://Proxy.Example/x"}, "proxy.example:443", "https_proxy"),
        ({"https_proxy": " http://user:hunter22@127.0.0.1:8080\n"}, "127.0.0.1:8080", "https_proxy"),
    ],
)
def test_the_proxy_is_that_of_the_environment(
    environ: dict[str, str], server: str | None, variable: str | None
) -> None:
    found = _proxy(SERVICE, environ)
    assert (found and found.server, found and found.variable) == (server, variable)
    assert "hunter22" not in repr(found)


@pytest.mark.parametrize(
    "address",
    [
        "socks5://secret@proxy:1080",
        "ftp://secret@proxy:21",
        "http://",
        "http://secret@",
        "http://proxy:secret",
        "http://[::1",
        "http://::1:3128",
        "http://proxy\r\nX-Evil: 1",
        "http://proxy?secret",
    ],
)
def test_a_proxy_that_cannot_be_used_is_one_line_without_its_address(address: str) -> None:
    variable = "HTTPS_PROXY"
    with pytest.raises(ValueError, match=f"^{variable}: .* Fix: ") as caught:
        _proxy(SERVICE, {variable: address})
    assert str(caught.value).isprintable()
    assert "secret" not in str(caught.value)
    # It does not matter where it is not used.
    for url, environ in ((SERVICE, {"NO_PROXY": "*"}), ("http://localhost:1", {}), ("https://127.0.0.1", {})):
        assert _proxy(url, {variable: address, **environ}) is None


@pytest.mark.parametrize("url", ["https://localhost", "https://LOCALHOST.:1", "https://127.9.9.9", "https://[::1]:1"])
def test_loopback_is_never_reached_through_a_proxy(url: str) -> None:
    assert _proxy(url, {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": ""}) is None


@pytest.mark.parametrize(
    ("url", "exceptions", "is_direct"),
    [
        (SERVICE, "*", True),
        (SERVICE, "example.com", True),
        (SERVICE, ".Example.COM", True),
        (SERVICE, "a.example b.example\texample.com", True),
        (SERVICE, "a.example,,example.com,", True),
        (f"{SERVICE}:8443", "api.example.com:8443", True),
        (SERVICE, "api.example.com:8443", False),
        (SERVICE, "ple.com", False),
        (SERVICE, "example.com.evil.example", False),
        (SERVICE, "10.0.0.0/8", False),
        (SERVICE, ". : [ ] / % -", False),
        ("https://10.1.2.3", "10.1.2.3", True),
    ],
)
def test_no_proxy_lists_domains_and_addresses(url: str, exceptions: str, *, is_direct: bool) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        assert (_proxy(url, {"ALL_PROXY": "http://proxy:1", name: exceptions}) is None) is is_direct


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_authority(tmp_path_factory.mktemp("authority"), HOST)[0]


def test_certificates_replace_the_public_ones(authority: Path, tmp_path: Path) -> None:
    assert read_network(SERVICE, {"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}).certificates is None
    found = read_network(SERVICE, {"SSL_CERT_FILE": str(authority)})
    assert found.certificates is not None
    assert found.certificates.cert_store_stats()["x509"] == 1
    assert (found.certificates.verify_mode, found.certificates.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not found.certificates.verify_flags & ssl.VERIFY_X509_STRICT
    both = {"SSL_CERT_FILE": str(authority), "SSL_CERT_DIR": "/nowhere"}
    assert read_network(SERVICE, both).variables == "SSL_CERT_FILE and SSL_CERT_DIR"
    (tmp_path / "0123abcd.0").write_bytes(authority.read_bytes())
    assert read_network(SERVICE, {"SSL_CERT_DIR": f"/nowhere:{tmp_path}"}).variables == "SSL_CERT_DIR"


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nx\n", "key", "folder"])
def test_a_file_without_certificates_is_one_line(content: bytes | str | None, authority: Path, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content == "key":
        file.write_bytes(authority.with_suffix(".key").read_bytes())
    elif content == "folder":
        file.mkdir()
    with pytest.raises(ValueError, match=rf"^SSL_CERT_FILE: .*{file}.* Fix: ") as caught:
        read_network(SERVICE, {"SSL_CERT_FILE": str(file)})
    assert str(caught.value).isprintable()
    assert read_network("http://localhost", {"SSL_CERT_FILE": str(file)}).certificates is None


@pytest.mark.anyio
@pytest.mark.parametrize("is_secure", [False, True], ids=["http proxy", "https proxy"])
async def test_a_proxy_gets_its_credentials_and_not_the_key(tmp_path: Path, *, is_secure: bool) -> None:
    async with (
        Stage(saying(http())).open() as stage,
        private_network(tmp_path, int(stage.url.rpartition(":")[2]), is_secure=is_secure) as network,
    ):
        network.login = f"Basic {base64.b64encode(b'user:hunter22').decode()}"
        server = (
            f"https://user:hunter22@localhost:{network.port}"
            if is_secure
            else f"http://user:hunter22@127.0.0.1:{network.port}"
        )
        trusted = {"SSL_CERT_DIR": str(tmp_path)} if is_secure else {"SSL_CERT_FILE": str(network.authority)}
        found = read_network(BASE_URL, {"HTTPS_PROXY": server, **trusted})
        async with ApiClient(
            BASE_URL,
            SecretStr(KEY),
            clock=WakefulClock(),
            concurrency=1,
            network=found,
        ) as client:
            for _ in range(3):
                assert (await client.send(REQUEST)).page.items == 1
    # One tunnel, kept open.
    [head] = network.heads
    assert head.startswith(f"CONNECT {HOST}:8443 HTTP/1.1\r\n")
    assert KEY not in head
    assert len(stage.heads) == 3
    for head in stage.heads:
        assert f"authorization: Bearer {KEY}\r\n" in head.replace("Authorization", "authorization")
        assert "proxy" not in head.lower()


async def _failure(network_url: str, certificates: ssl.SSLContext | None = None) -> Failure:
    proxy = read_network(BASE_URL, {"HTTPS_PROXY": network_url}).proxy
    network = Network(proxy, certificates)
    patience = Timeouts(connect=1, read=1, total=2)
    async with ApiClient(BASE_URL, SecretStr(KEY), clock=WakefulClock(), timeout=patience, network=network) as client:
        with pytest.raises(ApiError) as caught:
            await client.send(REQUEST)
    shown = everything_shown(caught.value)
    assert "hunter22" not in shown
    assert "Basic" not in shown
    assert KEY not in shown
    return caught.value.failure


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("refusal", "code", "status"),
    [
        ("", "proxy_refused", 407),
        ("403 user:hunter22 is not allowed", "proxy_refused", 403),
        ("429 Slowly", "connection_failed", 429),
        ("502 hunter22", "connection_failed", 502),
    ],
)
async def test_an_error_of_a_proxy_names_the_proxy(tmp_path: Path, refusal: str, code: str, status: int) -> None:
    async with private_network(tmp_path, 9) as network:
        network.login = "none"
        network.refusal = f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode() if refusal else b""
        error = await _failure(f"http://user:hunter22@127.0.0.1:{network.port}")
    assert error.code == code
    assert error.disposition is Disposition.RETRY
    assert f"{HOST}:8443 through the proxy 127.0.0.1:{network.port} (HTTPS_PROXY)" in error.message
    assert error.message.endswith(f"the proxy answered with status {status}")


@pytest.mark.anyio
async def test_a_proxy_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    async with private_network(tmp_path, 9, is_secure=True) as network:
        url = f"https://user:hunter22@localhost:{network.port}"
        error = await _failure(url)
        assert error.message.startswith(f"the certificate of the proxy localhost:{network.port} (HTTPS_PROXY) is not")
        assert (error.code, "SSL_CERT_FILE" in error.hint) == ("certificate_refused", True)
    error = await _failure(url)
    assert error.code == "connection_failed"
    assert error.message.startswith(f"cannot connect to the proxy localhost:{network.port} (HTTPS_PROXY): ")
