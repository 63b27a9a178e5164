"""The service is reached through the proxy of the environment, with the certificates of the environment."""

import base64
import ssl
from pathlib import Path

import pytest

from connectors.source.network import read_network
from tests.private_network import BASE_URL, HOST, create_authority, private_network
from tests.servers import Stage, http, saying
from tests.source.test_source_client import KEY, REQUEST, client, everything_shown, failing

SERVICE = "https://api.example.com"


def _proxy(url: str, environ: dict[str, str]) -> str:
    return read_network(url, environ).proxy


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://b:2", "https_proxy": "", "all_proxy": "c:3"}, "b:2 (HTTPS_PROXY)"),
        ({"https_proxy": "proxy"}, "proxy:80 (https_proxy)"),
        ({"https_proxy": "HTTPS://Proxy.Example/x"}, "proxy.example:443 (https_proxy)"),
        ({"https_proxy": " http://user:hunter22@127.0.0.1:8080\n"}, "127.0.0.1:8080 (https_proxy)"),
    ],
)
def test_the_proxy_is_that_of_the_environment(environ: dict[str, str], proxy: str) -> None:
    found = read_network(SERVICE, environ)
    assert found.proxy == proxy
    url = found.proxy_url.get_secret_value() if found.proxy_url else ""
    assert ("hunter22" in url, "hunter22" in repr(found)) == ("hunter22" in str(environ), False)


@pytest.mark.parametrize(
    "address",
    [
        *("socks5://secret@proxy:1080", "ftp://secret@proxy:21", "http://", "http://secret@", "http://proxy:secret"),
        *("http://proxy:65536", "http://[::1", "http://::1:3128", "http://proxy\r\nX-Evil: 1"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_one_line_without_its_address(address: str) -> None:
    with pytest.raises(ValueError, match=r"^HTTPS_PROXY: .* Fix: ") as caught:
        _proxy(SERVICE, {"HTTPS_PROXY": address})
    assert str(caught.value).isprintable()
    assert "secret" not in str(caught.value)
    # It does not matter where it is not used.
    for url, environ in ((SERVICE, {"NO_PROXY": "*"}), ("http://localhost:1", {}), ("https://127.0.0.1", {})):
        assert _proxy(url, {"HTTPS_PROXY": address, **environ}) == ""


@pytest.mark.parametrize(
    ("url", "exceptions", "is_direct"),
    [
        *((url, "", True) for url in ("https://localhost", "https://127.9.9.9", "https://[::1]:1")),
        *((SERVICE, exceptions, True) for exceptions in ("*", ".Example.COM", "a.example,,example.com,")),
        (SERVICE, "a.example b.example\texample.com", True),
        (f"{SERVICE}:8443", "api.example.com:8443", True),
        ("https://10.1.2.3", "10.1.2.3", True),
        *((SERVICE, exceptions, False) for exceptions in ("", "api.example.com:8443", "ple.com", "10.0.0.0/8")),
        *((SERVICE, exceptions, False) for exceptions in ("example.com.evil.example", ". : [ ] / % -")),
    ],
)
def test_no_proxy_lists_domains_and_addresses_and_loopback_is_always_direct(
    url: str, exceptions: str, *, is_direct: bool
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        assert (_proxy(url, {"ALL_PROXY": "http://proxy:1", name: exceptions}) == "") is is_direct


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_authority(tmp_path_factory.mktemp("authority"), HOST)[0]


def test_certificates_replace_the_public_ones(authority: Path) -> None:
    assert read_network(SERVICE, {"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}).certificates is None
    found = read_network(SERVICE, {"SSL_CERT_FILE": str(authority)}).certificates
    assert found is not None
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not found.verify_flags & ssl.VERIFY_X509_STRICT
    both = {"SSL_CERT_FILE": str(authority), "SSL_CERT_DIR": "/nowhere"}
    assert read_network(SERVICE, both).variables == "SSL_CERT_FILE and SSL_CERT_DIR"


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nx\n"])
def test_a_file_without_certificates_is_one_line(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^SSL_CERT_FILE: .*{file}.* Fix: ") as caught:
        read_network(SERVICE, {"SSL_CERT_FILE": str(file)})
    assert str(caught.value).isprintable()
    assert read_network("http://localhost", {"SSL_CERT_FILE": str(file)}).certificates is None


@pytest.mark.anyio
@pytest.mark.parametrize("proxy", ["http://er:hunter22@127.0.0.1", "https://er:hunter22@localhost", "http://localhost"])
async def test_a_proxy_gets_its_credentials_and_not_the_key(tmp_path: Path, proxy: str) -> None:
    is_secure = proxy.startswith("https")
    async with (
        Stage(saying(http())).open() as stage,
        private_network(tmp_path, int(stage.url.rpartition(":")[2]), is_secure=is_secure) as network,
    ):
        if "@" in proxy:
            network.login = f"Basic {base64.b64encode(b'er:hunter22').decode()}"
        trusted = {"SSL_CERT_DIR": str(tmp_path)} if is_secure else {"SSL_CERT_FILE": str(network.authority)}
        found = read_network(BASE_URL, {"HTTPS_PROXY": f"{proxy}:{network.port}", **trusted})
        async with client(BASE_URL, concurrency=1, network=found) as one:
            for _ in range(3):
                assert len((await one.send(REQUEST)).page.records) == 1
    # One tunnel, kept open.
    [head] = network.heads
    assert head.startswith(f"CONNECT {HOST}:8443 HTTP/1.1\r\n")
    assert (KEY in head, "uthorization" in head) == (False, "@" in proxy)
    assert len(stage.heads) == 3
    for head in map(str.lower, stage.heads):
        assert f"authorization: bearer {KEY}\r\n" in head
        assert "proxy" not in head


async def _failure(url: str) -> tuple[str, str, str]:
    """Return code, message and hint of a request through a proxy, which show neither credentials nor the key."""
    error = await failing(BASE_URL, network=read_network(BASE_URL, {"HTTPS_PROXY": url}))
    assert not [secret for secret in ("hunter22", "Basic") if secret in everything_shown(error)]
    return error.failure.code, error.failure.message, error.failure.hint


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("refusal", "status"), [("", 407), ("403 user:hunter22 is not allowed", 403), ("502 hunter22", 502)]
)
async def test_an_error_of_a_proxy_names_the_proxy(tmp_path: Path, refusal: str, status: int) -> None:
    async with private_network(tmp_path, 9) as network:
        network.login = "none"
        network.refusal = f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode() if refusal else b""
        code, message, _ = await _failure(f"http://user:hunter22@127.0.0.1:{network.port}")
    assert code == "proxy_refused"
    assert f"{HOST}:8443 through the proxy 127.0.0.1:{network.port} (HTTPS_PROXY)" in message
    assert message.endswith(f"the proxy answered with status {status}")


@pytest.mark.anyio
async def test_a_proxy_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    async with private_network(tmp_path, 9, is_secure=True) as network:
        url = f"https://user:hunter22@localhost:{network.port}"
        name = f"{HOST}:8443 through the proxy localhost:{network.port} (HTTPS_PROXY)"
        code, message, hint = await _failure(url)
        assert (code, "SSL_CERT_FILE" in hint) == ("certificate_refused", True)
        assert message.startswith(f"the certificate of {name} is not")
    code, message, _ = await _failure(url)
    assert (code, message) == ("connection_failed", f"cannot connect to {name}: connection refused")
