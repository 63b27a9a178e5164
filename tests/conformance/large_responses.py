"""Responses that are too large for files, generated from a valid one."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.conformance.recorded_responses import good, recording

_DEEP = b"[" * 200_000


def _with(header: bytes) -> bytes:
    return good().replace(b"Content-Type", header + b"Content-Type", 1)


SWOLLEN: Mapping[str, bytes] = MappingProxyType(
    {
        "header of 8,000 bytes": _with(b"X-Long: " + b"x" * 8_000 + b"\r\n"),
        "header of 9,000 bytes": _with(b"Content-Security-Policy: " + b"x" * 9_000 + b"\r\n"),
        "header of 60,000 bytes": _with(b"X-Long: " + b"x" * 60_000 + b"\r\n"),
        "header of 64 KiB": _with(b"X-Long: " + b"x" * 65_536 + b"\r\n"),
        "name of 64 KiB": _with(b"X" * 65_536 + b": x\r\n"),
        "100 headers": _with(b"".join(b"X-%d: x\r\n" % number for number in range(100))),
        "900 headers": _with(b"".join(b"X-%d: x\r\n" % number for number in range(900))),
        "1,000 headers": _with(b"".join(b"X-%d: x\r\n" % number for number in range(1_000))),
        "reason of 20,000 bytes": good().replace(b"OK", b"O" * 20_000, 1),
        "status line without an end": b"HTTP/1.1 200 " + b"O" * 70_000,
        "100 Continue, 1,000 times": b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000 + good(),
        "JSON 200,000 deep": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(_DEEP) + _DEEP,
    }
)


def sent(name: str) -> bytes:
    """Return the bytes of a response, recorded or generated."""
    return SWOLLEN.get(name) or recording(name)
