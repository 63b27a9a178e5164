"""Reads a response body up to a size limit, which applies after decompression."""

import zlib


class BodyError(ValueError):
    """A body that cannot be used. The message is one line."""


class BodyTooLarge(BodyError):  # noqa: N818 - the name describes the body
    """A body that exceeds the size limit."""


class BoundedBody:
    """Collects the pieces of one body and decompresses gzip as they arrive. `limit`: bytes after decompression.

    Only gzip, which was requested, is decompressed: stacked codings would multiply the effect of a decompression bomb.
    Raises BodyError for any other coding.
    """

    def __init__(self, content_encoding: str, limit: int) -> None:
        coding = content_encoding.strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip"}:
            raise BodyError("the Content-Encoding of the body is not gzip, which was requested")
        self._gzip = zlib.decompressobj(wbits=31) if coding.endswith("gzip") else None
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Add the next piece. Raises BodyTooLarge, or BodyError when the gzip data is damaged."""
        if self._gzip is not None:
            piece = self._unpacked(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise BodyTooLarge(f"the body is larger than {self._limit} bytes")
        self._pieces.append(piece)

    def _unpacked(self, piece: bytes) -> bytes:
        unpacked = b""
        while piece and len(unpacked) <= self._limit - self._size:
            # RFC 1952: gzip data may consist of several members.
            if self._gzip is None or self._gzip.eof:
                self._gzip = zlib.decompressobj(wbits=31)
            try:
                # One byte more than the limit is enough to detect a body that is too large.
                unpacked += self._gzip.decompress(piece, self._limit - self._size - len(unpacked) + 1)
            except zlib.error:
                raise BodyError("the gzip data of the body is damaged") from None
            piece = self._gzip.unused_data
        return unpacked

    def whole(self) -> bytes:
        """Return the whole body. Raises BodyError when its gzip data is truncated."""
        if self._gzip is not None and self._size and not self._gzip.eof:
            raise BodyError("the gzip data of the body is truncated")
        return b"".join(self._pieces)
