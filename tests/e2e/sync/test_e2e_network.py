"""Syncs through an HTTP proxy, to a service with a certificate of a private authority."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import Operator
from tests.private_network import BASE_URL, private_network

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]
PASSWORD = "hunter22"


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        for spelled in (name, name.lower()):
            monkeypatch.delenv(spelled, raising=False)


async def test_a_sync_through_a_proxy_trusts_a_private_authority(shell: Operator, service: Api, tmp_path: Path) -> None:
    async with private_network(tmp_path, urlsplit(service.url).port or 0) as network:
        network.login = "Basic dXNlcjpodW50ZXIyMg=="
        shell.env |= {
            "GRAMHOUSE_BASE_URL": BASE_URL,
            "HTTPS_PROXY": f"http://user:{PASSWORD}@127.0.0.1:{network.port}",
            "SSL_CERT_FILE": str(network.authority),
        }
        printed = ""
        for command in (["doctor"], ["sync", "--verbose"]):
            done = await asyncio.to_thread(shell.run, *command)
            printed += done.stdout + done.stderr
        assert f"through the proxy 127.0.0.1:{network.port} (HTTPS_PROXY)" in printed
        assert "trusts the certificates of SSL_CERT_FILE" in printed
        assert_matches_api(shell.ask, service)
    stored = b"".join(path.read_bytes() for path in shell.folder.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in stored + printed.encode()


@pytest.mark.parametrize(
    ("command", "variable", "value", "shown"),
    [
        ("sync", "ALL_PROXY", f"socks5h://user:{PASSWORD}@proxy:1080", "SOCKS proxies are not supported"),
        ("up", "SSL_CERT_FILE", "/nowhere/ca.pem", "/nowhere/ca.pem: No such file or directory"),
    ],
)
def test_a_variable_that_cannot_be_used_is_one_line_before_the_first_request(
    operator: Operator, command: str, variable: str, value: str, shown: str
) -> None:
    operator.env |= {"GRAMHOUSE_BASE_URL": "https://api.invalid", variable: value}
    process = operator.run(command, code=2)
    [line] = [line for line in (process.stdout + process.stderr).splitlines() if variable in line]
    assert (shown in line, "Fix: " in line) == (True, True)
    assert PASSWORD not in process.stdout + process.stderr
    assert not operator.warehouse.exists()
