"""Rule C for connections: what fails before an answer began, or before the key was sent, is tried on a new one."""

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.nights.conftest import Operator
from tests.nights.service import Service, answer_one, gateway, raw_server
from tests.private_network import create_authority

PLAIN_REFUSAL = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"


def server_context(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the file of an authority, and the context of a server that has its certificate."""
    folder.mkdir()
    authority, certificate = create_authority(folder, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return authority, context


def answer_securely(connection: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as secure:
        answer_one(secure)


def refuse(connection: socket.socket, _: int) -> None:
    connection.recv(65_536)
    connection.sendall(PLAIN_REFUSAL)


def test_one_of_two_servers_has_a_wrong_certificate(operator: Operator) -> None:
    authority, right = server_context(operator.folder / "right")
    _, wrong = server_context(operator.folder / "wrong")
    operator.env["SSL_CERT_FILE"] = str(authority)
    with raw_server(lambda connection, number: answer_securely(connection, (wrong, right)[number % 2])) as port:
        operator.set(base_url=f"https://localhost:{port}", api_key="key")
        operator.run("sync")


def test_a_server_that_wants_a_client_certificate_is_named(operator: Operator) -> None:
    authority, context = server_context(operator.folder / "server")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    operator.env["SSL_CERT_FILE"] = str(authority)
    with raw_server(lambda connection, _: answer_securely(connection, context)) as port:
        operator.set(base_url=f"https://localhost:{port}", api_key="key")
        assert "client certificate" in operator.run("sync", code=1).text


# A TLS port that is sent plain text says nothing, or refuses as nginx does, without an envelope.
@pytest.mark.parametrize(
    ("asked", "meet", "fix"), [("https", refuse, "or http"), ("http", refuse, "https"), ("http", None, "https")]
)
def test_the_wrong_scheme_is_named(
    operator: Operator, asked: str, meet: Callable[[socket.socket, int], None] | None, fix: str
) -> None:
    _, context = server_context(operator.folder / "server")
    with raw_server(meet or (lambda connection, _: answer_securely(connection, context))) as port:
        operator.set(base_url=f"{asked}://127.0.0.1:{port}", api_key="key")
        assert fix in operator.run("sync", code=1).text.replace(f"{asked}://127.0.0.1", "")


@pytest.mark.parametrize("status", [302, 307])
def test_the_page_of_a_portal_is_named(operator: Operator, status: int) -> None:
    portal = gateway(status, location="http://portal.example/login")
    operator.connect(Service()).respond = lambda _request, _page: portal
    text = operator.run("sync", code=1).text
    assert any(word in text.partition("Fix:")[2] for word in ("portal", "gateway", "sign in", "network")), text
