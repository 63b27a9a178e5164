"""A copy has all bytes of a file, whichever system call makes it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.warehouse.publish.publish import copy_file


def refuse(*_: int) -> int:
    raise OSError(errno.EOPNOTSUPP, "not supported")


def refuse_the_rest(source: int, target: int, count: int) -> int:
    return refuse() if os.lseek(source, 0, os.SEEK_CUR) else os.write(target, os.read(source, min(count, 1000)))


@pytest.mark.parametrize("size", [0, 3_000_001])
@pytest.mark.parametrize("call", [None, refuse, refuse_the_rest])
def test_all_bytes_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, call: Callable[..., int] | None
) -> None:
    (tmp_path / "source").write_bytes(os.urandom(size))
    if call is not None:
        monkeypatch.setattr(os, "copy_file_range", call, raising=False)
    copy_file(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == (tmp_path / "source").read_bytes()


def test_a_file_or_link_in_the_way_is_not_written_to(tmp_path: Path) -> None:
    for name in ("source", "other"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for name in ("other", "link"):
        with pytest.raises(FileExistsError):
            copy_file(tmp_path / "source", tmp_path / name)
    assert (tmp_path / "other").read_text() == "other"
