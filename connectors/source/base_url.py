"""Validates the API key and the service address: which addresses the key may be sent to."""

import ipaddress
import re
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_core import Url

from models.runs import one_line

# Every request adds this path (API section 4); an address copied from the API's description already ends with it.
_VERSION_PATH = "/api/v1"

_SHOWN = 80

# Names and IPv6 addresses that the resolver and every URL parser read in the same way.
_HOST = re.compile(r"([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|\[[0-9a-f:.]+\]")


def check_base_url(url: str) -> str:
    """Check the API's address; return it in its normalized spelling, so that two can be compared.

    The case of scheme and host, a dot at the end of the host, the scheme's default port, a trailing slash and `/api/v1`
    make no difference. A path prefix is allowed. The scheme must be https, because requests carry the API key; http is
    allowed for this machine only. Raises ValueError with a message of one line, which never quotes the host because
    that may contain a password.
    """
    if not url.isascii() or not url.isprintable() or any(char in url for char in " \\"):
        raise ValueError("the base URL contains invalid characters; write non-ASCII hosts in punycode")
    if not url.lower().startswith(("https://", "http://")):
        raise ValueError("the base URL must begin with https://, or for this machine with http://")
    try:
        parts, given = Url(url), urlsplit(url)
    except ValueError:
        raise ValueError("the base URL is not a valid address: its host or port cannot be parsed") from None
    host, path = parts.host or "", (parts.path or "").rstrip("/")
    past = path.partition(f"{_VERSION_PATH}/")[2]
    faults = {
        "must not contain a user name or password": "@" in given.netloc,
        "has an invalid host": host.strip("[]") != given.hostname or not _HOST.fullmatch(host),
        "must not contain a query or fragment": "?" in url or "#" in url,
        "uses http, which is allowed for this machine only; use https": parts.scheme == "http"
        and not is_loopback(host.strip("[]")),
        f"continues after {_VERSION_PATH}; remove /{one_line(past, _SHOWN)}": bool(past),
    }
    if problem := next((fault for fault, is_present in faults.items() if is_present), None):
        raise ValueError(f"the base URL {problem}")
    is_default = parts.port == {"https": 443, "http": 80}[parts.scheme]
    address = host.rstrip(".") if is_default else f"{host.rstrip('.')}:{parts.port}"
    return f"{parts.scheme}://{address}{path.removesuffix(_VERSION_PATH).rstrip('/')}"


def check_api_key(api_key: SecretStr) -> None:
    """Check that the key can be sent in a header. Raises ValueError with a message that does not contain it."""
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            "the API key is empty or contains characters that are invalid in a header, such as a line break"
        )


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a literal loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
