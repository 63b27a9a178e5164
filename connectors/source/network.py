"""How the service is reached according to the environment: through which proxy, and with which certificates."""

import ipaddress
import os
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from connectors.source.base_url import is_host, is_loopback
from models.text import one_line

# As in curl, lower case comes first, and an empty variable counts as unset. Without http_proxy: http is for loopback.
_PROXY = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_NO_PROXY = ("no_proxy", "NO_PROXY")
_DEFAULT_PORTS = {"http": 1080, "https": 443}

# The password may contain characters that should be percent-encoded; a path has no effect, as in curl.
_ADDRESS = re.compile(
    r"((?P<login>.*)@)?(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[^@]*)?",
    re.IGNORECASE | re.ASCII,
)
_WITH_PORT = re.compile(r"(\[[^]]*\]|[^:]*):([0-9]{1,5})")

# The names under which OpenSSL looks for certificates in a folder.
_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")
_NO_PEM = "it contains no certificate in PEM format"
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy: `http[s]://host:port`, the variable that names it, and the value of Proxy-Authorization."""

    url: str
    variable: str
    authorization: str | None = field(default=None, repr=False)

    @property
    def server(self) -> str:
        """Return `host:port`."""
        return self.url.partition("://")[2]


@dataclass(frozen=True, slots=True)
class Network:
    """A proxy, and certificates that replace the public ones with the variables that name them; by default neither."""

    proxy: Proxy | None = None
    certificates: ssl.SSLContext | None = None
    variables: str = ""


def read_network(base_url: str, environ: Mapping[str, str]) -> Network:
    """Return how a valid base URL is reached: through the proxy that curl would use, but loopback always directly.

    Raises ValueError with a message of one line. It contains no address of a proxy, which may contain a password.
    """
    parts = urlsplit(base_url)
    if parts.scheme == "http":
        return Network()
    proxy = _proxy((parts.hostname or "").rstrip("."), parts.port or 443, environ)
    files = {name: environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if environ.get(name)}
    certificates = _certificates(files.get("SSL_CERT_FILE", ""), files.get("SSL_CERT_DIR", ""))
    return Network(proxy, certificates, " and ".join(files))


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str]:
    return next(((name, value) for name in names if (value := environ.get(name, "").strip())), ("", ""))


def _proxy(host: str, port: int, environ: Mapping[str, str]) -> Proxy | None:
    variable, address = _first(_PROXY, environ)
    _, exceptions = _first(_NO_PROXY, environ)
    if not address or is_loopback(host) or any(_covers(one, host, port) for one in re.split(r"[\s,]+", exceptions)):
        return None
    scheme, _, rest = (address if "://" in address else f"http://{address}").partition("://")
    scheme = scheme.lower()
    if scheme.startswith("socks"):
        fix = f"set HTTPS_PROXY to an HTTP proxy, or NO_PROXY to {host}"
        raise ValueError(f"{variable}: SOCKS proxies are not supported. Fix: {fix}")
    found = _ADDRESS.fullmatch(rest)
    number = int((found and found["port"]) or _DEFAULT_PORTS.get(scheme, 0))
    if (
        found is None
        or scheme not in _DEFAULT_PORTS
        or not is_host(found["host"].strip("[]"))
        or not 0 < number < 65_536
    ):
        raise ValueError(
            f"{variable}: it is not the address of an HTTP proxy. Fix: set it to http://HOST:PORT or"
            " http://USER:PASSWORD@HOST:PORT, with special characters percent-encoded"
        )
    return Proxy(f"{scheme}://{found['host'].lower()}:{number}", variable, _authorization(found["login"]))


def _covers(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY covers a host: `*`, a domain, an address or a network, with a port or not."""
    if entry == "*":
        return True
    name = entry.lower()
    if found := _WITH_PORT.fullmatch(name):
        if int(found[2]) != port:
            return False
        name = found[1]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        domain = name.removeprefix("*").strip(".")
        return bool(domain) and f".{host}".endswith(f".{domain}")
    try:
        return address in ipaddress.ip_network(name.replace("[", "").replace("]", ""), strict=False)
    except ValueError:
        return False


def _authorization(login: str | None) -> str | None:
    if login is None:
        return None
    name, _, password = login.partition(":")
    both = [unquote_to_bytes(part.encode(errors="surrogateescape")) for part in (name, password)]
    return f"Basic {b64encode(b':'.join(both)).decode()}"


def _certificates(file: str, folders: str) -> ssl.SSLContext | None:
    """Load the certificates of SSL_CERT_FILE and SSL_CERT_DIR, which may list folders; None if neither is set."""
    if not file and not folders:
        return None
    named = (entry.name for folder in folders.split(os.pathsep) if folder for entry in Path(folder).glob("*.[0-9]*"))
    # Beside a file, the folder may be one that the operating system's image names and does not have.
    if not file and not any(map(_HASHED.fullmatch, named)):
        raise ValueError(
            f"SSL_CERT_DIR: {one_line(folders, _SHOWN)} has no certificates under the names that OpenSSL looks for."
            " Fix: run `openssl rehash` on the folder, or unset the variable"
        )
    try:
        context = ssl.create_default_context(cafile=file or None, capath=folders or None)
        # Since Python 3.13 the default; it rejects many private authorities, which curl accepts.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not file or context.cert_store_stats()["x509"]:
            return context
        why = _NO_PEM
    except ssl.SSLError:
        why = _NO_PEM
    except OSError as error:
        why = error.strerror or "it cannot be read"
    raise ValueError(
        f"SSL_CERT_FILE: {one_line(file, _SHOWN)}: {why}. Fix: set it to a PEM file with the trusted certificates, or"
        " unset it"
    )
