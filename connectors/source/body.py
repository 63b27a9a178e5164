"""Decompresses a response body up to a size limit."""

import zlib


class BodyError(ValueError):
    """A body that cannot be used. The message is one line."""


class BodyTooLarge(BodyError):  # noqa: N818 - the name describes the body
    """A body that exceeds the size limit."""


def unpack(body: bytes, content_encoding: str, limit: int) -> bytes:
    """Return a body without its coding. `limit` is the maximum of bytes, before and after decompression.

    Only gzip, which was requested, is decompressed: stacked codings would multiply the effect of a decompression bomb.
    Raises BodyTooLarge, and BodyError for any other coding and if the gzip data is damaged or truncated.
    """
    coding, unpacked = content_encoding.strip().lower(), b""
    if coding not in {"", "identity", "gzip", "x-gzip"}:
        message = "the Content-Encoding of the body is not gzip, which was requested"
        raise BodyError(message)
    if not coding.endswith("gzip"):
        body, unpacked = b"", body
    # RFC 1952: gzip data may consist of several members.
    while body and len(unpacked) <= limit:
        member = zlib.decompressobj(wbits=31)
        try:
            # One byte more than the limit is enough to detect a body that is too large.
            unpacked += member.decompress(body, limit - len(unpacked) + 1)
        except zlib.error:
            message = "the gzip data of the body is damaged"
            raise BodyError(message) from None
        if unpacked and not member.eof and len(unpacked) <= limit:
            message = "the gzip data of the body is truncated"
            raise BodyError(message)
        body = member.unused_data
    if len(unpacked) > limit:
        message = f"the body is larger than {limit} bytes"
        raise BodyTooLarge(message)
    return unpacked
