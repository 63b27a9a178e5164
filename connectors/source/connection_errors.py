"""Errors of requests without a complete response: their code in `RULES`, and a text with server and cause."""

import os
import re
import socket
import ssl
from collections.abc import Mapping

import aiohttp
import httpx

from connectors.source.network import Proxy


class BodyTooLarge(Exception):  # noqa: N818 - the name describes the body
    """A body that exceeds the size limit after decompression."""


# The first row that matches is used. The classes are aiohttp's, from which its httpx transport raises each error of
# httpx: it reports both refused and reset connections as ConnectTimeout.
_CODES: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((BodyTooLarge,), "body_too_large_response"),
    ((ssl.CertificateError, aiohttp.ServerFingerprintMismatch), "certificate_refused"),
    ((TimeoutError,), "timeout"),
    ((aiohttp.ClientConnectorSSLError, ssl.SSLError), "tls_failed"),
    ((aiohttp.ClientConnectorError,), "connection_failed"),
    ((aiohttp.ClientConnectionError, ConnectionError), "connection_reset"),
    ((aiohttp.ClientPayloadError, httpx.DecodingError), "cut_body"),
    ((aiohttp.ClientHttpProxyError,), "proxy_refused"),
    ((aiohttp.ClientResponseError,), "protocol_error"),
    ((Exception,), "connection_failed"),
)

_TEXTS: Mapping[str, str] = {
    "body_too_large_response": "the response of {server} is too large",
    "certificate_refused": "the certificate of {server} is not trusted",
    "client_certificate_required": "{server} requires a client certificate",
    "connection_failed": "cannot connect to {server}",
    "connection_reset": "{server} closed the connection before it answered",
    "cut_body": "the response of {server} ended early, or its compression is damaged",
    "proxy_refused": "the connection to {server} was refused",
    "protocol_error": "{server} answered with something that is not HTTP",
    "timeout": "{server} did not answer in time",
    "tls_failed": "no TLS (https) with {server}",
}
# Statuses with which a proxy says that it could not reach the service, or may do so later.
_TRANSIENT = frozenset({408, 425, 429, *range(500, 600)})
_ERRNO = re.compile(r"\[Errno (\d+)\]")
# An alert of the server after the handshake has the number of a system error, but is none.
_TLS_REASON = re.compile(r"\[SSL: (\w+)\]")

# What OpenSSL says of an answer that is not TLS.
_NOT_TLS = ("wrong version", "record layer", "packet length")


def explain(error: Exception, base_url: httpx.URL, proxy: Proxy | None, *, begun: bool) -> tuple[str, str]:
    """Return the code in `RULES` for a transport's exception, and one line that names the server and the cause.

    The line has no names of libraries. `begun`: the response's headers had arrived.
    """
    cause: BaseException = error
    while isinstance(cause.__cause__, aiohttp.ClientError):
        cause = cause.__cause__
    code, reason = _code_of(cause, begun=begun), _reason(cause)
    server = _at(base_url.host, base_url.port or (443 if base_url.scheme == "https" else 80))
    if proxy is not None:
        name = f"the proxy {proxy.server} ({proxy.variable})"
        is_at_proxy = isinstance(cause, aiohttp.ClientConnectorError) and _at(cause.host, cause.port) == proxy.server
        server = name if is_at_proxy else f"{server} through {name}"
    connecting = code == "timeout" and isinstance(cause, aiohttp.ConnectionTimeoutError)
    text = "{server} did not accept the connection in time" if connecting else _TEXTS[code]
    guess = _guess(code, base_url, reason) if base_url.scheme == "https" else ""
    return code, text.format(server=server) + (f": {reason}" if reason else "") + guess


def _code_of(cause: BaseException, *, begun: bool) -> str:
    if isinstance(cause, aiohttp.ClientHttpProxyError) and cause.status in _TRANSIENT:
        # The proxy, not this machine, could not connect to the service.
        return "connection_failed"
    if not begun and (reason := _TLS_REASON.search(str(cause))) and not isinstance(cause, ssl.CertificateError):
        return "client_certificate_required" if "CERTIFICATE_REQUIRED" in reason[1] else "tls_failed"
    code = next(code for kinds, code in _CODES if isinstance(cause, kinds))
    return "cut_body" if begun and code not in {"timeout", "body_too_large_response"} else code


def _guess(code: str, base_url: httpx.URL, reason: str) -> str:
    """Return what a server of https may expect instead, if anything."""
    if code == "connection_reset":
        # The reset may overtake the alert that says so.
        return "; it may require a client certificate"
    is_plain = code == "tls_failed" and any(word in reason for word in _NOT_TLS)
    return f"; it may expect http://{_at(base_url.host, base_url.port or 443)}" if is_plain else ""


def _at(host: str, port: int | None) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: BaseException) -> str:
    """Return the cause without what another program wrote: a proxy's text, or a part of a response, may be anything."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _reason(error.certificate_error)
        case aiohttp.ClientConnectorError():
            return _reason(error.os_error)
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered with status {error.status}"
        case aiohttp.ClientResponseError():
            return error.message.strip().partition("\n")[0].partition(":")[0]
        case ssl.SSLCertVerificationError(verify_message=str(message)) if message:
            return message.rstrip(".")
        case socket.gaierror(errno=socket.EAI_AGAIN):
            return "the host name could not be resolved: no name server answered"
        case socket.gaierror():
            return "the host name was not found"
        case OSError():
            return _of_system(error)
        case aiohttp.ClientError() | httpx.DecodingError():
            return ""
        case _:
            return str(error)


def _of_system(error: OSError) -> str:
    if tls := _TLS_REASON.search(str(error)):
        return tls[1].replace("_", " ").lower()
    if isinstance(error, ssl.SSLError):
        return "tls handshake failure"
    # For a host with several addresses asyncio joins all errors into one text.
    numbers = [error.errno] if error.errno else map(int, _ERRNO.findall(str(error)))
    texts = [os.strerror(number) for number in dict.fromkeys(numbers)]
    return ", ".join(f"{text[:1].lower()}{text[1:]}" for text in texts)
