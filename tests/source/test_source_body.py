import gzip
import tracemalloc

import pytest

from connectors.source.body import BodyError, BodyTooLarge, unpack

TEXT = b"the quick brown fox " * 50
PACKED = gzip.compress(TEXT)


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_is_unpacked(coding: str) -> None:
    assert unpack(PACKED, coding, 10_000) == TEXT
    assert unpack(PACKED + PACKED, coding, 10_000) == TEXT + TEXT
    assert unpack(b"", coding, 10_000) == b""
    for damaged, why in ((PACKED[:-1], "truncated"), (b"x" + PACKED, "damaged"), (PACKED + b"xyz", "damaged")):
        with pytest.raises(BodyError, match=why):
            unpack(damaged, coding, 10_000)


def test_the_limit_is_exact() -> None:
    assert unpack(b"x" * 10, "", 10) == b"x" * 10
    assert unpack(PACKED, "gzip", len(TEXT)) == TEXT
    with pytest.raises(BodyTooLarge, match="larger than 9 bytes"):
        unpack(b"x" * 10, "", 9)
    with pytest.raises(BodyTooLarge):
        unpack(PACKED, "gzip", len(TEXT) - 1)


def test_a_gzip_bomb_is_not_unpacked_beyond_the_limit() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            unpack(bomb, "gzip", 100_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
