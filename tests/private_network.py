"""A service with a certificate of a private authority, which can be reached only through an HTTP proxy."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers import listening

HOST = "service.internal.example"
BASE_URL = f"https://{HOST}:8443"
_KIND = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def create_authority(folder: Path, *names: str) -> tuple[Path, Path]:
    """Create an authority and a certificate for these names; return the authority's file and the server's, with key.

    The folder can be that of SSL_CERT_DIR.
    """
    authority, key, server = folder / "authority.pem", folder / "authority.key", folder / "server.pem"
    _openssl("req", "-x509", *_KIND, "-subj", "/CN=Private", "-keyout", key, "-out", authority)
    subject = ("-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={','.join(f'DNS:{name}' for name in names)}")
    request = ("-CA", authority, "-CAkey", key, "-keyout", folder / "server.key", "-out", folder / "server.crt")
    _openssl("req", "-x509", *_KIND, *subject, *request)
    _openssl("rehash", folder)
    server.write_bytes((folder / "server.key").read_bytes() + (folder / "server.crt").read_bytes())
    return authority, server


@dataclass
class PrivateNetwork:
    """`authority` is the file with its certificate, `port` the proxy's, `heads` what the proxy received in plain text.

    The proxy answers with `refusal`, if set, instead of connecting; and with 407 to other credentials than `login`.
    """

    authority: Path
    port: int = 0
    heads: list[str] = field(default_factory=list)
    refusal: bytes = b""
    login: str = ""


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    there, back = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asyncio.gather(_copy(reader, back), _copy(there, writer))
    finally:
        back.close()


@asynccontextmanager
async def private_network(folder: Path, upstream: int, *, is_secure: bool = False) -> AsyncIterator[PrivateNetwork]:
    """Start the service, which relays to the port `upstream`, and the proxy, with https if `is_secure`."""
    authority, certificate = create_authority(folder, HOST, "localhost")
    network = PrivateNetwork(authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _relay(reader, writer, upstream)

    async with listening(serve, tls) as service:

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            network.heads.append(head)
            is_allowed = f"proxy-authorization: {network.login}\r\n".lower() in head.lower() or not network.login
            if is_allowed and not network.refusal:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _relay(reader, writer, service)
            else:
                writer.write(network.refusal or b"HTTP/1.1 407 Log in, please\r\nContent-Length: 0\r\n\r\n")

        async with listening(forward, tls if is_secure else None) as network.port:
            yield network
