"""Reads a response body up to a size limit, which applies after decompression."""

import zlib


class BodyError(ValueError):
    """A body that cannot be used; the text is one line."""


class BodyTooLarge(BodyError):  # noqa: N818 - it names what came
    """A body larger than we are willing to hold."""


class BoundedBody:
    """Gathers the pieces of one body, unpacking gzip as they come; `limit` is in bytes, unpacked.

    Only what was asked for is unpacked: codings stacked on one another would multiply a bomb's power.
    Raises BodyError for any other coding.
    """

    def __init__(self, content_encoding: str, limit: int) -> None:
        coding = content_encoding.strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip"}:
            message = "the Content-Encoding of the body is not gzip, which was requested"
            raise BodyError(message)
        self._gzip = zlib.decompressobj(wbits=31) if coding.endswith("gzip") else None
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Take the next piece; raises BodyTooLarge, or BodyError when the gzip is damaged."""
        if self._gzip is not None:
            piece = self._unpacked(piece)
        self._size += len(piece)
        if self._size > self._limit:
            message = f"the body is larger than {self._limit} bytes"
            raise BodyTooLarge(message)
        self._pieces.append(piece)

    def _unpacked(self, piece: bytes) -> bytes:
        unpacked = b""
        while piece and len(unpacked) <= self._limit - self._size:
            # RFC 1952: gzip is a series of members.
            if self._gzip is None or self._gzip.eof:
                self._gzip = zlib.decompressobj(wbits=31)
            try:
                # One byte more than fits is enough to know that it does not.
                unpacked += self._gzip.decompress(piece, self._limit - self._size - len(unpacked) + 1)
            except zlib.error:
                message = "the gzip data of the body is damaged"
                raise BodyError(message) from None
            piece = self._gzip.unused_data
        return unpacked

    def whole(self) -> bytes:
        """Return the body; raises BodyError when its gzip did not end."""
        if self._gzip is not None and self._size and not self._gzip.eof:
            message = "the gzip data of the body is truncated"
            raise BodyError(message)
        return b"".join(self._pieces)
