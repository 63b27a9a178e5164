"""The service is reached through the proxy of the environment, with the certificates of the environment."""

import base64
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from connectors.source.network import read_network
from tests.private_network import BASE_URL, HOST, create_authority, private_network
from tests.servers import Stage, http, saying
from tests.source.test_source_client import KEY, REQUEST, client, everything_shown, failing

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


@pytest.mark.anyio
@pytest.mark.parametrize("proxy", ["http://er:hunter22@127.0.0.1", "https://er:hunter22@localhost", "http://localhost"])
async def test_a_proxy_gets_its_credentials_and_not_the_key(tmp_path: Path, proxy: str) -> None:
    is_secure, login = proxy.startswith("https"), base64.b64encode(b"er:hunter22").decode() if "@" in proxy else ""
    async with (
        Stage(saying(http())).open() as stage,
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


@pytest.mark.anyio
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
