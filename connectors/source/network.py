"""How the service is reached according to the environment: through which proxy, and with which certificates."""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_core import Url

from connectors.source.base_url import is_loopback
from models.runs import one_line

# As in curl, lower case comes first, and an empty variable counts as unset. Without http_proxy: http is for loopback.
_PROXY = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_NO_PROXY = ("no_proxy", "NO_PROXY")
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Network:
    """A proxy, and certificates that replace the public ones with the variables that name them; by default neither.

    `proxy` is its host, port and variable, to be shown; `proxy_url` has its credentials, too. There is none for http:
    without TLS, the key would reach it.
    """

    proxy: str = ""
    proxy_url: SecretStr | None = None
    certificates: ssl.SSLContext | None = None
    variables: str = ""


def read_network(base_url: str, environ: Mapping[str, str]) -> Network:
    """Return how a valid base URL is reached: through the proxy that is set, but loopback always directly.

    Raises ValueError with a message of one line. It contains no address of a proxy, which may contain a password.
    """
    parts = urlsplit(base_url)
    if parts.scheme == "http":
        return Network()
    is_direct = _is_direct(parts.hostname or "", parts.port or 443, environ)
    proxy, proxy_url = ("", None) if is_direct else _proxy(environ)
    files = {name: environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if environ.get(name)}
    return Network(proxy, proxy_url, _certificates(files) if files else None, " and ".join(files))


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str]:
    return next(((name, value) for name in names if (value := environ.get(name, "").strip())), ("", ""))


def _is_direct(host: str, port: int, environ: Mapping[str, str]) -> bool:
    """Return whether NO_PROXY covers a host: `*`, or a domain or an address, with a port or not."""
    entries = [entry.strip(".") for entry in re.split(r"[\s,]+", _first(_NO_PROXY, environ)[1].lower())]
    covered = tuple(f".{entry}" for entry in entries if entry)
    return is_loopback(host) or "*" in entries or any(f".{each}".endswith(covered) for each in (host, f"{host}:{port}"))


def _proxy(environ: Mapping[str, str]) -> tuple[str, SecretStr | None]:
    variable, address = _first(_PROXY, environ)
    if not address:
        return "", None
    try:
        url = Url(address if "://" in address else f"http://{address}")
    except ValueError:
        url = None
    if url is None or url.scheme not in {"http", "https"}:
        raise ValueError(
            f"{variable}: it is not the address of an HTTP proxy (SOCKS proxies are not supported). Fix: set it to"
            " http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with special characters percent-encoded"
        )
    return f"{url.host}:{url.port} ({variable})", SecretStr(str(url))


def _certificates(files: Mapping[str, str]) -> ssl.SSLContext:
    file = files.get("SSL_CERT_FILE")
    try:
        context = ssl.create_default_context(cafile=file, capath=files.get("SSL_CERT_DIR"))
    except OSError as error:
        why = "it contains no certificate in PEM format" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(
            f"SSL_CERT_FILE: {one_line(file or '', _SHOWN)}: {why}. Fix: set it to a PEM file with the trusted"
            " certificates, or unset it"
        ) from None
    # Since Python 3.13 the default; it rejects many private authorities, which curl accepts.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
