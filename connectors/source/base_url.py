"""Validates the service address: which addresses the API key may be sent to."""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from models.api import one_line

# Every request adds this path (API section 4); an address copied from the API's description holds it already.
_VERSION_PATH = "/api/v1"

_SHOWN = 80

# What every parser takes for a host: a name, or an address, and a port.
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?")


def check_base_url(url: str) -> str:
    """Check the API's address, and return it without a trailing slash and `/api/v1`; a path prefix is fine.

    Only https may carry the key, save to this machine itself. Raises ValueError with one line that never
    quotes the host, which may hold a password.
    """
    if not url.isascii() or not url.isprintable() or any(char in url for char in " \\"):
        message = "the base URL contains invalid characters; write non-ASCII hosts in punycode"
        raise ValueError(message)
    problem = _problem(url)
    if problem:
        message = f"the base URL {problem}"
        raise ValueError(message)
    parts = urlsplit(url)
    prefix = parts.path.rstrip("/").removesuffix(_VERSION_PATH).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{prefix}"


_DEFAULT_PORTS = {"https": 443, "http": 80}


def normalized(base_url: str) -> str:
    """Return a checked base URL in the one spelling by which two are compared.

    Case of scheme and host, a dot at the host's end, the scheme's own port, a slash at the end and `/api/v1` make no
    difference. Raises ValueError as `check_base_url` does.
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
        f"must begin with {_suggested(url)}": parts.scheme not in {"https", "http"},
        "has no host": not parts.hostname,
        "must not contain a user name or password": "@" in parts.netloc,
        "has an invalid host": not _HOST.fullmatch(parts.netloc),
        "must not contain a query or fragment": "?" in url or "#" in url,
        "must not contain . or .. in its path": not {".", ".."}.isdisjoint(parts.path.split("/")),
        "must use https; http is allowed for this machine only": parts.scheme == "http" and not _is_loopback(parts),
        "has an invalid port": port == 0,
        f"continues after {_VERSION_PATH}; remove /{one_line(past, _SHOWN)}": bool(past),
    }
    return next((fault for fault, present in faults.items() if present), None)


def _suggested(url: str) -> str:
    try:
        return "http://" if _is_loopback(urlsplit(f"//{url}")) else "https://"
    except ValueError:
        return "https://"


def _is_loopback(parts: SplitResult) -> bool:
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
