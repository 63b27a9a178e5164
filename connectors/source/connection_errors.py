"""Errors of requests without a complete response: their code in `RULES`, and a text with server and cause."""

import os
import re
import socket
import ssl
import zlib

import aiohttp
import httpx

from connectors.source.network import Proxy


class BodyTooLarge(Exception):  # noqa: N818 - the name describes the body
    """A body that exceeds the size limit after decompression."""


# The first row that matches is used. The classes are aiohttp's, from which its httpx transport raises each error of
# httpx: it reports both refused and reset connections as ConnectTimeout.
_CUT = "cut_body", "the response of {server} ended early, or its compression is damaged"
_NO_TLS = "tls_failed", "no TLS (https) with {server}"
_ROWS: tuple[tuple[tuple[type[BaseException], ...], tuple[str, str]], ...] = (
    ((BodyTooLarge,), ("body_too_large_response", "the response of {server} is too large")),
    ((ssl.CertificateError,), ("certificate_refused", "the certificate of {server} is not trusted")),
    ((aiohttp.ConnectionTimeoutError,), ("timeout", "{server} did not accept the connection in time")),
    ((TimeoutError,), ("timeout", "{server} did not answer in time")),
    ((aiohttp.ClientConnectorSSLError, ssl.SSLError), _NO_TLS),
    ((aiohttp.ClientConnectorError,), ("connection_failed", "cannot connect to {server}")),
    (
        (aiohttp.ClientConnectionError, ConnectionError),
        ("connection_reset", "{server} closed the connection before it answered"),
    ),
    ((aiohttp.ClientPayloadError, zlib.error), _CUT),
    ((aiohttp.ClientHttpProxyError,), ("proxy_refused", "the connection to {server} was refused")),
    ((aiohttp.ClientResponseError,), ("protocol_error", "{server} answered with something that is not HTTP")),
    ((Exception,), ("connection_failed", "cannot connect to {server}")),
)

# Statuses with which a proxy says that it could not reach the service, or may do so later.
_TRANSIENT = frozenset({408, 425, 429, *range(500, 600)})
_ERRNO = re.compile(r"\[Errno (\d+)\]")
_TLS_REASON = re.compile(r"\[SSL: (\w+)\]")


def explain(error: Exception, base_url: httpx.URL, proxy: Proxy | None, *, begun: bool) -> tuple[str, str]:
    """Return the code in `RULES` for a transport's exception, and one line that names the server and the cause.

    The line has no names of libraries. `begun`: the response's headers had arrived.
    """
    cause: BaseException = error
    while isinstance(cause.__cause__, aiohttp.ClientError):
        cause = cause.__cause__
    # The error of the system or of TLS, which aiohttp wraps.
    inner = getattr(cause, "certificate_error", None) or getattr(cause, "os_error", None) or cause
    code, text = next(row for types, row in _ROWS if isinstance(cause, types))
    if begun and code not in {"timeout", "body_too_large_response"}:
        code, text = _CUT
    elif isinstance(cause, aiohttp.ClientHttpProxyError) and cause.status in _TRANSIENT:
        # The proxy, not this machine, could not connect to the service.
        code = "connection_failed"
    elif code != "certificate_refused" and (alert := _TLS_REASON.search(str(inner))):
        # An alert of the server after the handshake has the number of a system error, but is none.
        is_wanted = "CERTIFICATE_REQUIRED" in alert[1]
        code, text = ("client_certificate_required", "{server} requires a client certificate") if is_wanted else _NO_TLS
    server = plain = _address(base_url.host, base_url.port or (443 if base_url.scheme == "https" else 80))
    if proxy is not None:
        name = f"the proxy {proxy.server} ({proxy.variable})"
        is_at_proxy = (
            isinstance(cause, aiohttp.ClientConnectorError) and _address(cause.host, cause.port) == proxy.server
        )
        server = name if is_at_proxy else f"{server} through {name}"
    reason = _reason(inner)
    hint = f"; it may expect http://{plain}" if code == "tls_failed" else ""
    return code, text.format(server=server) + (f": {reason}" if reason else "") + hint


def _address(host: str, port: int | None) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: BaseException) -> str:
    """Return the cause without what another program wrote: a proxy's text, or a part of a response, may be anything."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered with status {error.status}"
        case aiohttp.ClientResponseError():
            return error.message.strip().partition("\n")[0].partition(":")[0]
        case ssl.SSLCertVerificationError(verify_message=str(message)) if message:
            return message.rstrip(".")
        case socket.gaierror():
            is_away = error.errno == socket.EAI_AGAIN
            return (
                "the host name could not be resolved: no name server answered"
                if is_away
                else "the host name was not found"
            )
        case OSError() if alert := _TLS_REASON.search(str(error)):
            return alert[1].replace("_", " ").lower()
        case ssl.SSLError():
            return "tls handshake failure"
        case OSError():
            # For a host with several addresses asyncio joins all errors into one text.
            numbers = [error.errno] if error.errno else map(int, _ERRNO.findall(str(error)))
            return ", ".join(
                os.strerror(number)[:1].lower() + os.strerror(number)[1:] for number in dict.fromkeys(numbers)
            )
        case BodyTooLarge():
            return str(error)
        case _:
            return ""
