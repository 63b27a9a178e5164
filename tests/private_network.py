"""A service with a certificate of a private authority, which can be reached only through an HTTP proxy."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers import listening

HOST = "service.internal.example"
BASE_URL = f"https://{HOST}:8443"
_NEW = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"


def create_authority(folder: Path, *names: str) -> tuple[Path, Path]:
    """Create an authority and a certificate for these names; return the authority's file and the server's, with key.

    The folder can be that of SSL_CERT_DIR.
    """

    def openssl(arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True, cwd=folder)

    subject = f"-subj /CN={names[0]} -addext subjectAltName={','.join(f'DNS:{name}' for name in names)}"
    openssl(f"{_NEW} -subj /CN=Private -keyout authority.key -out authority.pem")
    openssl(f"{_NEW} {subject} -CA authority.pem -CAkey authority.key -keyout server.key -out server.crt")
    openssl("rehash .")
    server = folder / "server.pem"
    server.write_bytes((folder / "server.key").read_bytes() + (folder / "server.crt").read_bytes())
    return folder / "authority.pem", server


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
    with closing(back):
        await asyncio.gather(_copy(reader, back), _copy(there, writer))


@asynccontextmanager
async def private_network(folder: Path, upstream: int, *, is_secure: bool = False) -> AsyncIterator[PrivateNetwork]:
    """Start the service, which relays to the port `upstream`, and the proxy, with https if `is_secure`."""
    authority, certificate = create_authority(folder, HOST, "localhost")
    network = PrivateNetwork(authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)

    async with listening(lambda reader, writer: _relay(reader, writer, upstream), tls) as service:

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
