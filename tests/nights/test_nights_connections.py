"""Rule C for connections: what fails before an answer began, or before the key was sent, is tried on a new one."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from pathlib import Path

from tests.http_server import http_server, send
from tests.nights.conftest import Operator
from tests.private_network import create_authority

ONE = {"ig_username": "anna", "public_id": "p00000000001", "status": "active"}


def server_context(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the file of an authority, and the context of a server that has its certificate."""
    folder.mkdir()
    authority, certificate = create_authority(folder, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return authority, context


def answer(request: BaseHTTPRequestHandler) -> None:
    """List one account, without media."""
    items = [] if "/media?" in request.path else [{"id": "00000000-0000-4000-8000-000000000001", **ONE}]
    send(request, 200, json.dumps({"items": items, "next_cursor": None}).encode())


@contextmanager
def secure_server(*contexts: ssl.SSLContext) -> Iterator[int]:
    """Serve with these contexts in turn; yield the port."""
    turns = cycle(contexts)
    with http_server(answer, lambda connection: next(turns).wrap_socket(connection, server_side=True)) as url:
        yield int(url.rpartition(":")[2])


def test_one_of_two_servers_has_a_wrong_certificate(operator: Operator) -> None:
    authority, right = server_context(operator.folder / "right")
    _, wrong = server_context(operator.folder / "wrong")
    operator.env["SSL_CERT_FILE"] = str(authority)
    with secure_server(wrong, right) as port:
        operator.set(base_url=f"https://localhost:{port}", api_key="key")
        operator.run("sync")


def test_the_wrong_scheme_is_named(operator: Operator) -> None:
    _, context = server_context(operator.folder / "server")
    with http_server(answer) as plain, secure_server(context) as port:
        for url, fix in ((plain.replace("http:", "https:"), "or http"), (f"http://127.0.0.1:{port}", "https")):
            operator.set(base_url=url, api_key="key")
            assert fix in operator.run("sync", code=1).text.replace(url, "")
