"""Rule C for connections: what fails before an answer began, or before the key was sent, is tried on a new one."""

import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from tests.nights.conftest import Operator
from tests.nights.service import Service, answer_one, gateway, raw_server
from tests.private_network import create_authority


def server_context(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the file of an authority, and the context of a server that has its certificate."""
    folder.mkdir()
    authority, certificate = create_authority(folder, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return authority, context


def use_tls(operator: Operator, port: int, authority: Path) -> None:
    operator.set(base_url=f"https://localhost:{port}", api_key="key")
    operator.monkeypatch.setenv("SSL_CERT_FILE", str(authority))


def test_one_of_two_servers_has_a_wrong_certificate(operator: Operator) -> None:
    authority, right = server_context(operator.folder / "right")
    _, wrong = server_context(operator.folder / "wrong")

    def meet(connection: socket.socket, number: int) -> None:
        with suppress(ssl.SSLError), (wrong, right)[number % 2].wrap_socket(connection, server_side=True) as secure:
            answer_one(secure)

    with raw_server(meet) as port:
        use_tls(operator, port, authority)
        done = operator.sync()
    assert done.code == 0, done.text


def test_a_server_that_wants_a_client_certificate_is_named(operator: Operator) -> None:
    authority, context = server_context(operator.folder / "server")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)

    def meet(connection: socket.socket, _: int) -> None:
        with suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as secure:
            answer_one(secure)

    with raw_server(meet) as port:
        use_tls(operator, port, authority)
        done = operator.run("sync")
    assert done.code == 1
    assert "client certificate" in done.text


def test_https_to_a_plain_port_names_the_scheme(operator: Operator) -> None:
    def meet(connection: socket.socket, _: int) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    with raw_server(meet) as port:
        operator.set(base_url=f"https://127.0.0.1:{port}", api_key="key")
        done = operator.run("sync")
    assert done.code == 1
    assert f"http://127.0.0.1:{port}" in done.text


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"], ids=["nothing", "400"]
)
def test_http_to_a_tls_port_names_the_scheme(operator: Operator, answer: bytes) -> None:
    _, context = server_context(operator.folder / "server")

    def meet(connection: socket.socket, _: int) -> None:
        if answer:
            # As nginx does; it has no envelope.
            connection.recv(65_536)
            connection.sendall(answer)
        else:
            with suppress(ssl.SSLError):
                context.wrap_socket(connection, server_side=True).close()

    with raw_server(meet) as port:
        operator.set(base_url=f"http://127.0.0.1:{port}", api_key="key")
        done = operator.run("sync")
    assert done.code == 1
    assert "https" in done.text


@pytest.mark.parametrize("status", [302, 307])
def test_the_page_of_a_portal_is_named(operator: Operator, status: int) -> None:
    portal = gateway(status, (b"location", b"http://portal.example/login"))
    operator.connect(Service()).respond = lambda _request, _page: portal
    done = operator.run("sync")
    assert done.code == 1
    assert any(word in done.text.partition("Fix:")[2] for word in ("portal", "gateway", "sign in", "network")), (
        done.text
    )
