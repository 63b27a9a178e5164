"""Frames: page commits as bytes, each with its number in the order of landing.

A frame is a checksum of everything after it, the lengths of its two parts, and the parts: the page commit in
MessagePack, without the page's body, and the body as the API sent it.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec

from models.page_commit import PageCommit
from models.partition import Partition

# An item's order key is the landing number of its page, shifted by this, plus its position on the page. A body has at
# most 64 MB and an item at least two bytes, so a page has fewer than 2^26 items.
POSITION_BITS = 26

_SUM = struct.Struct("<I")
_LENGTHS = struct.Struct("<II")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, PageCommit]).decode


class Frame(NamedTuple):
    """A page commit that landed; `seq` is its number in the order of landing, from 1.

    The body of its page, which is empty in `commit`, is a view of the segment's data.
    """

    seq: int
    commit: PageCommit
    body: bytes | memoryview = b""

    @property
    def partition(self) -> Partition | None:
        """The partition whose page or checkpoint it contains; None if it contains neither."""
        of = self.commit.page or self.commit.checkpoint
        return None if of is None else of.partition


def frame(seq: int, commit: PageCommit) -> Frame:
    """Return a page commit as a frame. Raises UnicodeEncodeError for lone surrogates."""
    page = commit.page
    if page is None:
        return Frame(seq, commit)
    return Frame(seq, replace(commit, page=replace(page, body="")), page.body.encode())


def as_bytes(one: Frame) -> bytes:
    """Return the bytes of a frame. Raises UnicodeEncodeError for lone surrogates."""
    commit = _encode((one.seq, one.commit))
    rest = b"".join((_LENGTHS.pack(len(commit), len(one.body)), commit, one.body))
    return _SUM.pack(zlib.crc32(rest)) + rest


def frames_of(data: bytes, begin: int, *, summed: bool) -> Iterator[tuple[Frame, int]]:
    """Yield each frame with the offset of its end, up to the first incomplete one.

    `summed`: check the checksums, which is not necessary for data that this process wrote.
    """
    view = memoryview(data)
    while (offset := begin + _SUM.size + _LENGTHS.size) <= len(data):
        (checksum,) = _SUM.unpack_from(data, begin)
        commit, body = _LENGTHS.unpack_from(data, begin + _SUM.size)
        end = offset + commit + body
        if end > len(data) or (summed and zlib.crc32(view[begin + _SUM.size : end]) != checksum):
            return
        # The body stays a view, because a copy of every body would double the memory of a merge.
        yield Frame(*_decode(view[offset : offset + commit]), view[offset + commit : end]), end
        begin = end
