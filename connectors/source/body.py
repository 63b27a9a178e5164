"""Reads a response body up to a size limit, which applies after decompression."""

import zlib
from typing import Final

# zlib recognizes both formats by their first bytes.
_COMPRESSED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_ZLIB_OR_GZIP: Final = 47
_GZIP: Final = b"\x1f\x8b"


class BodyError(ValueError):
    """A body that cannot be used. The message is one line."""


class BodyTooLarge(BodyError):  # noqa: N818 - the name describes the body
    """A body that exceeds the size limit."""


class _Inflater:
    """Decompresses one coding as its pieces arrive. What follows the last complete gzip member is ignored."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_ZLIB_OR_GZIP)
        self.is_cut = False

    def inflate(self, piece: bytes, most: int) -> bytes:
        """Return the decompressed piece, or a little more than `most` bytes of it."""
        done = b""
        while piece and len(done) <= most:
            if self._member.eof:
                if not _GZIP.startswith(piece[:2]):
                    break
                # RFC 1952: gzip data may consist of several members.
                self._member = zlib.decompressobj(_ZLIB_OR_GZIP)
            try:
                done += self._member.decompress(piece, most - len(done) + 1)
            except zlib.error:
                raise BodyError("the compressed data of the body is damaged") from None
            piece = self._member.unused_data
        self.is_cut = not self._member.eof
        return done


class BoundedBody:
    """Collects the pieces of one body and decompresses them as they arrive. `limit`: bytes, after each decompression.

    As in other clients, a coding that is not known changes nothing, and several are undone in turn (RFC 9110, 8.4).
    """

    def __init__(self, content_encoding: str, limit: int) -> None:
        codings = [each.strip().lower() for each in content_encoding.split(",")]
        self._inflaters = [_Inflater() for each in codings if each in _COMPRESSED]
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Add the next piece. Raises BodyTooLarge, or BodyError when compressed data is damaged."""
        for inflater in self._inflaters:
            piece = inflater.inflate(piece, self._limit - self._size)
        self._size += len(piece)
        if self._size > self._limit:
            raise BodyTooLarge(f"the body is larger than {self._limit} bytes")
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """Return the whole body. Raises BodyError when its compressed data is truncated."""
        if any(inflater.is_cut for inflater in self._inflaters):
            raise BodyError("the compressed data of the body is truncated")
        return b"".join(self._pieces)
