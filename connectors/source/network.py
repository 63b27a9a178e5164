"""Where requests go: which addresses the key may be sent to, through which proxy, and with which certificates."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_core import Url

from models.runs import one_line

if TYPE_CHECKING:
    import ssl

# Every request adds this path (API section 4); an address copied from the API's description already ends with it.
_VERSION_PATH = "/api/v1"

_PORTS = {"https": 443, "http": 80}

# Names and IPv6 addresses that the resolver and every URL parser read in the same way.
_HOST = re.compile(r"([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|\[[0-9a-f:.]+\]")

# As in curl, lower case comes first, and an empty variable counts as unset. Without http_proxy: http is for loopback.
_PROXY = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_NO_PROXY = ("no_proxy", "NO_PROXY")


def check_base_url(url: str) -> str:
    """Check the API's address; return it in its normalized spelling, so that two can be compared.

    The case of scheme and host, a dot at the end of the host, the scheme's default port, a trailing slash and `/api/v1`
    make no difference. A path prefix is allowed. The scheme must be https, because requests carry the API key; http is
    allowed for this machine only. Raises ValueError with a message of one line, which never quotes the host because
    that may contain a password.
    """
    try:
        parts, given = Url(url), urlsplit(url)
    except ValueError:
        why = "is not a valid address, which begins with https://, or for this machine with http://"
        raise ValueError(f"the base URL {why}") from None
    host, path = parts.host or "", (parts.path or "").rstrip("/")
    past = path.partition(f"{_VERSION_PATH}/")[2]
    is_clean = url.isascii() and url.isprintable() and not {" ", "\\"} & {*url}
    for is_present, fault in (
        (not is_clean, "contains invalid characters; write non-ASCII hosts in punycode"),
        (parts.scheme not in _PORTS, "must begin with https://, or for this machine with http://"),
        ("@" in given.netloc, "must not contain a user name or password"),
        (host.strip("[]") != given.hostname or not _HOST.fullmatch(host), "has an invalid host"),
        ("?" in url or "#" in url, "must not contain a query or fragment"),
        (parts.scheme == "http" and not _is_loopback(host), "uses http, which is for this machine only; use https"),
        (past, f"continues after {_VERSION_PATH}; remove /{one_line(past, 80)}"),
    ):
        if is_present:
            raise ValueError(f"the base URL {fault}")
    port = "" if parts.port == _PORTS[parts.scheme] else f":{parts.port}"
    return f"{parts.scheme}://{host.rstrip('.')}{port}{path.removesuffix(_VERSION_PATH).rstrip('/')}"


def check_api_key(api_key: SecretStr) -> None:
    """Check that the key can be sent in a header. Raises ValueError with a message that does not contain it."""
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            "the API key is empty or contains characters that are invalid in a header, such as a line break"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Network:
    """A proxy, and certificates that replace the public ones with the variables that name them; by default neither.

    `proxy` is its host, port and variable, to be shown; `proxy_url` has its credentials, too. There is none for http:
    without TLS, the key would reach it.
    """

    proxy: str = ""
    proxy_url: SecretStr | None = None
    certificates: "ssl.SSLContext | None" = None
    variables: str = ""


def read_network(base_url: str, environ: Mapping[str, str]) -> Network:
    """Return how a valid base URL is reached: through the proxy that is set, but loopback always directly.

    Raises ValueError with a message of one line. It contains no address of a proxy, which may contain a password.
    """
    # Imported here, because every command imports this module, and most send nothing.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # noqa: PLC0415

    parts = urlsplit(base_url)
    if parts.scheme == "http":
        return Network()
    host, proxy, proxy_url = parts.hostname or "", "", None
    variable, address = _first(_PROXY, environ)
    exceptions = re.findall(r"[^\s,]+", _first(_NO_PROXY, environ)[1])
    # Python takes an asterisk for all hosts only if it stands alone, and `up` adds other hosts.
    listed = "*" if "*" in exceptions else ",".join(exceptions)
    is_direct = _is_loopback(host) or proxy_bypass_environment(f"{host}:{parts.port or 443}", {"no": listed})
    if address and not is_direct:
        try:
            url = Url(address if "://" in address else f"http://{address}")
        except ValueError:
            url = Url("invalid:")
        if url.scheme not in _PORTS:
            raise ValueError(
                f"{variable}: it is not the address of an HTTP proxy (SOCKS proxies are not supported). Fix: set it to"
                " http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with special characters percent-encoded"
            )
        proxy, proxy_url = f"{url.host}:{url.port} ({variable})", SecretStr(str(url))
    files = {name: environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if environ.get(name)}
    return Network(proxy, proxy_url, _certificates(files) if files else None, " and ".join(files))


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str]:
    return next(((name, value) for name in names if (value := environ.get(name, "").strip())), ("", ""))


def _certificates(files: Mapping[str, str]) -> "ssl.SSLContext":
    import ssl  # noqa: PLC0415 - as above

    file = files.get("SSL_CERT_FILE")
    try:
        context = ssl.create_default_context(cafile=file, capath=files.get("SSL_CERT_DIR"))
    except OSError as error:
        why = "it contains no certificate in PEM format" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(
            f"SSL_CERT_FILE: {one_line(file or '')}: {why}. Fix: set it to a PEM file with the trusted"
            " certificates, or unset it"
        ) from None
    # Since Python 3.13 the default; it rejects many private authorities, which curl accepts.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
