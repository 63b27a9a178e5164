import gzip
import zlib

import pytest

from connectors.source.body import BodyError, BodyTooLarge, BoundedBody

TEXT = b"the quick brown fox " * 50
PACKED = gzip.compress(TEXT)


def gather(pieces: list[bytes], coding: str = "", limit: int = 10_000) -> bytes:
    body = BoundedBody(coding, limit)
    for piece in pieces:
        body.add(piece)
    return body.whole()


CODINGS = [
    *((unknown, TEXT) for unknown in ("", "identity", "none", "utf-8", "aws-chunked", ",")),
    *((known, PACKED) for known in ("gzip", "GZIP", "x-gzip", "gzip, identity", " gzip ,")),
    ("deflate", zlib.compress(TEXT)),
    ("gzip, gzip", gzip.compress(PACKED)),
    ("deflate, gzip", gzip.compress(zlib.compress(TEXT))),
    ("gzip", gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
    *(("gzip", PACKED + behind) for behind in (b"\0\0\0", b"\n", b"xyz")),
]


@pytest.mark.parametrize(("coding", "sent"), CODINGS, ids=range(len(CODINGS)))
def test_codings_are_undone_in_turn_whatever_the_pieces(coding: str, sent: bytes) -> None:
    assert gather([sent], coding) == TEXT
    assert gather([sent[at : at + 1] for at in range(len(sent))], coding) == TEXT
    assert gather([], coding) == b""


def test_damaged_and_truncated_data_is_refused() -> None:
    for sent, why in ((PACKED[:-1], "truncated"), (PACKED[:9], "truncated"), (b"x" + PACKED, "damaged")):
        with pytest.raises(BodyError, match=why):
            gather([sent], "gzip")


def test_the_limit_is_exact() -> None:
    assert gather([b"x" * 5, b"x" * 5], limit=10) == b"x" * 10
    assert gather([PACKED], "gzip", limit=len(TEXT)) == TEXT
    for sent, coding, limit in (([b"x" * 5, b"x" * 5], "", 9), ([PACKED], "gzip", len(TEXT) - 1)):
        with pytest.raises(BodyTooLarge, match=f"larger than {limit} bytes"):
            gather(sent, coding, limit)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_bomb_is_not_unpacked_beyond_the_limit(depth: int) -> None:
    bomb = bytes(50_000_000)
    for _ in range(depth):
        bomb = gzip.compress(bomb)
    body = BoundedBody(", ".join(["gzip"] * depth), 100_000)
    with pytest.raises(BodyTooLarge):
        body.add(bomb)
    assert body._size == 100_001  # noqa: SLF001
