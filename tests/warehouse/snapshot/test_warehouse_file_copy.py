"""A copy has all bytes of a file, whichever system call makes it."""

import errno
import os
import random
from pathlib import Path

import pytest

from connectors.warehouse.publish import file_copy
from connectors.warehouse.publish.file_copy import copy_file


def refused(*_: object) -> int:
    raise OSError(errno.EOPNOTSUPP, "not supported")


def copied(source: Path, target: Path) -> bytes:
    copy_file(source, target)
    return target.read_bytes()


@pytest.mark.parametrize("size", [0, 1, 4096, 3_000_001])
@pytest.mark.parametrize("way", ["in the kernel", "through memory", "through memory from the middle"])
def test_all_bytes_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, way: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(random.Random(size).randbytes(size))
    if way == "through memory":
        monkeypatch.setattr(os, "copy_file_range", refused, raising=False)
    if way == "through memory from the middle":
        first = iter([True])

        def once(source: int, target: int, count: int) -> int:
            return os.write(target, os.read(source, min(count, 1000))) if next(first, False) else refused()

        monkeypatch.setattr(os, "copy_file_range", once, raising=False)
    monkeypatch.setattr(file_copy, "_BYTES_PER_CALL", 1_000_000)
    assert copied(source, target) == source.read_bytes()


def test_a_file_or_link_in_the_way_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    (tmp_path / "other").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for name in ("other", "link"):
        with pytest.raises(FileExistsError):
            copied(tmp_path / "source", tmp_path / name)
    assert (tmp_path / "other").read_bytes() == b"precious"
