"""A snapshot in a bucket: readers find the old or the new one, complete, whenever the writer is killed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from connectors.buckets import snapshot_bucket
from connectors.buckets.address import BucketError
from connectors.buckets.snapshot_bucket import SnapshotBucket

pytestmark = pytest.mark.anyio

URL = "s3://bucket/a/analytics.duckdb"
AT = datetime(2026, 3, 1, 2, 15, 0, 123456, tzinfo=UTC)
IDS = count(10_000_000)
LEFT = {".analytics.duckdb.lock", "analytics.duckdb"}


@dataclass
class MemoryBucket:
    """Objects in a dictionary, instead of obstore's; `failure` is called with a verb and a key first, and may raise."""

    objects: dict[str, bytes] = field(default_factory=dict)
    failure: Callable[[str, str], None] = lambda _verb, _key: None

    async def put_async(self, key: str, data: bytes | Path, **_: int) -> None:
        self.failure("put", key)
        self.objects[key] = await asyncio.to_thread(data.read_bytes) if isinstance(data, Path) else data

    async def get_async(self, key: str) -> "MemoryBucket":
        self.failure("get", key)
        if key not in self.objects:
            raise FileNotFoundError
        return MemoryBucket({"": self.objects[key]})

    async def bytes_async(self) -> bytes:
        return self.objects[""]

    async def get_range_async(self, key: str, *, start: int, length: int) -> bytes:
        return self.objects[key][start : start + length]

    async def list(self, prefix: str) -> AsyncIterator[list[dict[str, str]]]:
        self.failure("list", prefix)
        yield [{"path": key} for key in self.objects if key.startswith(prefix)]

    async def delete_async(self, key: str) -> None:
        self.failure("delete", key)
        self.objects.pop(key, None)


def _id() -> str:
    return str(next(IDS))


def _snapshot(store: MemoryBucket) -> SnapshotBucket:
    bucket = SnapshotBucket(URL)
    bucket._store = store  # noqa: SLF001
    return bucket


def _use_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # obstore's functions take the store first, as these methods do.
    monkeypatch.setattr(snapshot_bucket, "obstore", MemoryBucket)


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    _use_memory(monkeypatch)


async def _publish(store: MemoryBucket, folder: Path, content: bytes, at: datetime = AT) -> None:
    file = folder / "published"
    file.write_bytes(content)
    await _snapshot(store).publish(file, "w", at=at, new_id=_id)


async def _read(store: MemoryBucket, folder: Path) -> bytes:
    file = folder / "reader" / "analytics.duckdb"
    await _snapshot(store).fetch(file)
    return file.read_bytes()


async def test_the_last_published_snapshot_is_read(tmp_path: Path) -> None:
    store = MemoryBucket()
    with pytest.raises(BucketError, match=r"^There is no snapshot at s3://bucket/a/analytics\.duckdb\. Fix: "):
        await _read(store, tmp_path)
    for number in range(3):
        await _publish(store, tmp_path, b"%d" % number, AT + timedelta(hours=number))
        assert await _read(store, tmp_path) == b"%d" % number
    assert {path.name for path in (tmp_path / "reader").iterdir()} == LEFT


async def test_a_copy_that_is_current_is_not_downloaded_again(tmp_path: Path) -> None:
    store = MemoryBucket()
    await _publish(store, tmp_path, b"one")
    await _read(store, tmp_path)
    asked: list[str] = []
    store.failure = lambda _, key: asked.append(key)
    assert await _read(store, tmp_path) == b"one"
    assert asked == ["analytics.duckdb.json"]


async def test_a_newer_copy_that_another_command_downloads_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryBucket()
    await _publish(store, tmp_path, b"one")

    async def meanwhile() -> None:
        await _publish(store, tmp_path, b"two", AT + timedelta(hours=1))
        await _read(store, tmp_path)

    def taken_later(*_: object) -> None:
        monkeypatch.undo()
        _use_memory(monkeypatch)
        with ThreadPoolExecutor(1) as other:
            other.submit(asyncio.run, meanwhile()).result()

    monkeypatch.setattr("fcntl.flock", taken_later)
    assert await _read(store, tmp_path) == b"two"


@pytest.mark.parametrize("content", [b"two", b"another size"])
async def test_an_older_snapshot_that_was_published_again_is_read(tmp_path: Path, content: bytes) -> None:
    """As after restoring a backup: the pointer decides, not the time of the snapshot."""
    store = MemoryBucket()
    await _publish(store, tmp_path, b"one")
    await _read(store, tmp_path)
    await _publish(store, tmp_path, content, AT - timedelta(microseconds=1))
    assert await _read(store, tmp_path) == content


async def test_a_writer_killed_anywhere_leaves_the_old_snapshot_or_the_new_one(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    begun = MemoryBucket()
    await _publish(begun, tmp_path, b"old")
    found = set[bytes]()
    for kill_at in count():
        store, calls = MemoryBucket(dict(begun.objects)), count()

        def kill(_verb: str, _key: str, calls: Iterator[int] = calls, kill_at: int = kill_at) -> None:
            if next(calls) == kill_at:
                raise Killed

        store.failure = kill
        try:
            await _publish(store, tmp_path, b"new", AT + timedelta(days=9))
            break
        except Killed:
            store.failure = lambda _verb, _key: None
            found.add(await _read(store, tmp_path))
        # The next publish deletes old files that no pointer names.
        await _publish(store, tmp_path, b"newer", AT + timedelta(days=18))
        assert await _read(store, tmp_path) == b"newer"
        await _publish(store, tmp_path, b"newest", AT + timedelta(days=27))
        pointer = await _snapshot(store).pointer()
        assert pointer is not None
        files = sorted(key for key in store.objects if key.endswith(".duckdb"))
        assert (len(files), files[-1]) == (2, pointer.file)
    assert found == {b"old", b"new"}


async def test_a_file_is_kept_for_a_day_after_it_was_replaced(tmp_path: Path) -> None:
    other = "analytics.duckdb/2020-sales.csv"
    store = MemoryBucket({other: b"not ours"})
    files = []
    # Each was the snapshot for a week.
    for week in range(3):
        await _publish(store, tmp_path, b"%d" % week, AT + timedelta(days=7 * week))
        pointer = await _snapshot(store).pointer()
        assert pointer is not None
        files.append(pointer.file)
    assert {key for key in store.objects if key.endswith(".duckdb")} == set(files[1:])
    await _publish(store, tmp_path, b"3", AT + timedelta(days=15, seconds=-1))
    assert files[1] in store.objects
    await _publish(store, tmp_path, b"4", AT + timedelta(days=15, seconds=1))
    assert files[1] not in store.objects
    assert files[2] in store.objects
    assert other in store.objects


async def test_a_killed_upload_replaces_nothing(tmp_path: Path) -> None:
    store = MemoryBucket()
    await _publish(store, tmp_path, b"old")
    pointer = await _snapshot(store).pointer()
    assert pointer is not None
    killed = "analytics.duckdb/20260302T021500Z-killed00.duckdb"
    store.objects[killed] = b"no pointer names it"
    for hour in range(2):
        await _publish(store, tmp_path, b"%d" % hour, AT + timedelta(days=3, hours=hour))
        assert killed not in store.objects
        assert pointer.file in store.objects


async def test_a_download_that_is_cut_short_leaves_the_copy(tmp_path: Path) -> None:
    store = MemoryBucket()
    await _publish(store, tmp_path, b"one")
    await _read(store, tmp_path)
    await _publish(store, tmp_path, b"longer", AT + timedelta(hours=1))
    pointer = await _snapshot(store).pointer()
    assert pointer is not None
    store.objects[pointer.file] = b"lon"
    with pytest.raises(BucketError, match=r"3 of 6 bytes arrived\. Fix: "):
        await _read(store, tmp_path)
    assert (tmp_path / "reader" / "analytics.duckdb").read_bytes() == b"one"
    assert {path.name for path in (tmp_path / "reader").iterdir()} == LEFT


async def test_a_log_left_next_to_the_copy_is_removed_with_it(tmp_path: Path) -> None:
    store = MemoryBucket()
    await _publish(store, tmp_path, b"one")
    await _read(store, tmp_path)
    (tmp_path / "reader" / "analytics.duckdb.wal").write_bytes(b"of a program that wrote to the copy")
    assert await _read(store, tmp_path) == b"one"
    assert {path.name for path in (tmp_path / "reader").iterdir()} == LEFT


async def test_an_invalid_pointer_is_reported_in_one_line() -> None:
    store = MemoryBucket({"analytics.duckdb.json": b"<html>"})
    with pytest.raises(BucketError, match=r"analytics\.duckdb\.json is not a pointer to a snapshot .*Fix: choose"):
        await _snapshot(store).check()
