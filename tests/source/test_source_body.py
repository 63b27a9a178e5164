import gzip

import pytest

from connectors.source.body import BodyError, BodyTooLarge, BoundedBody

TEXT = b"the quick brown fox " * 50
PACKED = gzip.compress(TEXT)


def gather(pieces: list[bytes], coding: str = "", limit: int = 10_000) -> bytes:
    body = BoundedBody(coding, limit)
    for piece in pieces:
        body.add(piece)
    return body.whole()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_is_unpacked_from_chunks_of_any_size(coding: str) -> None:
    assert gather([PACKED], coding) == TEXT
    assert gather([PACKED[at : at + 1] for at in range(len(PACKED))], coding) == TEXT
    assert gather([PACKED + PACKED], coding) == TEXT + TEXT
    assert gather([], coding) == b""
    for damaged, why in ((PACKED[:-1], "truncated"), (b"x" + PACKED, "damaged"), (PACKED + b"xyz", "damaged")):
        with pytest.raises(BodyError, match=why):
            gather([damaged], coding)


def test_the_limit_is_exact() -> None:
    assert gather([b"x" * 5, b"x" * 5], limit=10) == b"x" * 10
    assert gather([PACKED], "gzip", limit=len(TEXT)) == TEXT
    with pytest.raises(BodyTooLarge, match="larger than 9 bytes"):
        gather([b"x" * 5, b"x" * 5], limit=9)
    with pytest.raises(BodyTooLarge):
        gather([PACKED], "gzip", limit=len(TEXT) - 1)


def test_a_gzip_bomb_is_not_unpacked_beyond_the_limit() -> None:
    body = BoundedBody("gzip", 1000)
    with pytest.raises(BodyTooLarge):
        body.add(gzip.compress(bytes(50_000_000)))
    assert body._size == 1001  # noqa: SLF001
