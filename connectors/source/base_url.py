"""Validates the API key and the service address: which addresses the key may be sent to."""

import ipaddress
import re
from urllib.parse import urlsplit

import idna
from pydantic import SecretStr

from models.text import one_line

# Every request adds this path (API section 4); an address copied from the API's description already ends with it.
_VERSION_PATH = "/api/v1"

_DEFAULT_PORTS = {"https": 443, "http": 80}
_SHOWN = 80

# Only hosts that every URL parser reads the same way: a name or an IP address, and optionally a port.
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?")


def check_base_url(url: str) -> str:
    """Check the API's address and return it without a trailing slash and `/api/v1`. A path prefix is allowed.

    The scheme must be https, because requests carry the API key; http is allowed for this machine only. Raises
    ValueError with a message of one line, which never quotes the host because that may contain a password.
    """
    if not url.isascii() or not url.isprintable() or any(char in url for char in " \\"):
        raise ValueError("the base URL contains invalid characters; write non-ASCII hosts in punycode")
    problem = _problem(url)
    if problem:
        raise ValueError(f"the base URL {problem}")
    parts = urlsplit(url)
    prefix = parts.path.rstrip("/").removesuffix(_VERSION_PATH).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{prefix}"


def check_api_key(api_key: SecretStr) -> None:
    """Check that the key can be sent in a header. Raises ValueError with a message that does not contain it."""
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            "the API key is empty or contains characters that are invalid in a header, such as a line break"
        )


def normalize_base_url(base_url: str) -> str:
    """Return a base URL in its normalized spelling, so that two can be compared.

    The case of scheme and host, a dot at the end of the host, the scheme's default port, a trailing slash and `/api/v1`
    make no difference. Raises ValueError as `check_base_url` does.
    """
    parts = urlsplit(check_base_url(base_url))
    host = (parts.hostname or "").rstrip(".")
    name = f"[{host}]" if ":" in host else host
    port = "" if parts.port in {None, _DEFAULT_PORTS[parts.scheme]} else f":{parts.port}"
    return f"{parts.scheme}://{name}{port}{parts.path}"


def _problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a valid address: its host or port cannot be parsed"
    past = parts.path.rstrip("/").partition(f"{_VERSION_PATH}/")[2]
    faults = {
        "must begin with https://, or for this machine with http://": parts.scheme not in {"https", "http"},
        "has no host": not parts.hostname,
        "must not contain a user name or password": "@" in parts.netloc,
        "has an invalid host": not _HOST.fullmatch(parts.netloc) or not is_host(parts.hostname or ""),
        "must not contain a query or fragment": "?" in url or "#" in url,
        "must not contain . or .. in its path": not {".", ".."}.isdisjoint(parts.path.split("/")),
        "uses http, which is allowed for this machine only; use https": parts.scheme == "http"
        and not is_loopback(parts.hostname or ""),
        "has an invalid port": port == 0,
        f"continues after {_VERSION_PATH}; remove /{one_line(past, _SHOWN)}": bool(past),
    }
    return next((fault for fault, present in faults.items() if present), None)


def is_host(host: str) -> bool:
    """Return whether an ASCII host is an IP address or a name that httpx and the resolver accept."""
    name = host.removesuffix(".")
    try:
        if ":" in name or not name.strip("0123456789."):
            ipaddress.ip_address(name)
        if name.startswith("xn--"):
            idna.decode(name)
        # Labels of 1 to 63 characters.
        name.encode("idna")
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a literal loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
