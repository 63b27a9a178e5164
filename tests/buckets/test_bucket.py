"""A snapshot in a bucket of an S3 server, and what can be wrong with it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from connectors.buckets import BucketError, SnapshotBucket, StoredSnapshot, check_url
from tests.buckets.s3 import s3_server

pytestmark = pytest.mark.anyio

SAS = {
    "AZURE_STORAGE_SAS_TOKEN": "sv=2021-08-06&sig=a%20secret",
    "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1/a",
    "AZURE_ALLOW_HTTP": "true",
}
AT = datetime(2026, 3, 1, 2, 15, 0, 123456, tzinfo=UTC)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, s3: dict[str, str]) -> None:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"s3://bucket/{tmp_path.name}/analytics.duckdb"


async def _publish(bucket: SnapshotBucket, folder: Path, content: bytes, at: datetime = AT) -> None:
    (folder / "published").write_bytes(content)
    await bucket.publish(folder / "published", "w", at=at)


async def _read(bucket: SnapshotBucket, folder: Path) -> bytes:
    await bucket.fetch(folder / "reader" / "analytics.duckdb")
    return (folder / "reader" / "analytics.duckdb").read_bytes()


async def test_a_snapshot_replaces_older_ones_alone_and_a_current_copy_is_kept(tmp_path: Path, url: str) -> None:
    bucket, files = SnapshotBucket(url), set[int]()
    await _publish(bucket, tmp_path, b"newer", AT + timedelta(hours=1))
    for _ in range(2):
        assert await _read(bucket, tmp_path) == b"newer"
        files.add((tmp_path / "reader" / "analytics.duckdb").stat().st_ino)
        with pytest.raises(BucketError, match=r"not replaced by an older snapshot: .* at 2026-03-01 03:15.* Fix: find"):
            await _publish(bucket, tmp_path, b"older")
    assert len(files) == 1
    obstore.put(from_url(url.rpartition("/")[0]), "analytics.duckdb", b"<html>")
    with pytest.raises(BucketError, match=rf"^{url} is not a snapshot\. Fix: choose another GRAMHOUSE_SNAPSHOT\.$"):
        await bucket.check()


class Replaced(SnapshotBucket):
    """A bucket whose snapshot is replaced after a reader has looked."""

    folder: Path

    async def newest(self) -> StoredSnapshot | None:
        """Return what was published."""
        found = await super().newest()
        await _publish(SnapshotBucket(self.url), self.folder, b"three", AT + timedelta(hours=2))
        return found


async def test_a_snapshot_that_is_replaced_while_it_is_downloaded_leaves_the_copy(tmp_path: Path, url: str) -> None:
    writer, reader = SnapshotBucket(url), Replaced(url)
    reader.folder = tmp_path
    await _publish(writer, tmp_path, b"one")
    await _read(writer, tmp_path)
    await _publish(writer, tmp_path, b"two", AT + timedelta(hours=1))
    with pytest.raises(BucketError, match=r"snapshot was replaced while it was read\. Fix: run the command again\.$"):
        await _read(reader, tmp_path)
    assert (tmp_path / "reader" / "analytics.duckdb").read_bytes() == b"one"
    assert await _read(writer, tmp_path) == b"three"


@pytest.mark.parametrize(
    ("address", "changes", "why"),
    [
        ("s3://none", {}, r"404 Not Found \(NoSuchBucket\)\. Fix: check the bucket's name"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "nowhere"}, "panicked"),
        ("s3://bucket", {"AWS_ALLOW_HTTP": "false"}, "builder error"),
        ("az://bucket", {"AZURE_STORAGE_ACCOUNT_NAME": "a", **SAS}, "Connection refused"),
        ("gs://bucket", {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"private_key": "a secret"'}, "Unable to decode"),
    ],
)
async def test_wrong_settings_of_a_bucket_are_reported_in_one_line_without_secrets(
    monkeypatch: pytest.MonkeyPatch, address: str, changes: dict[str, str], why: str
) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BucketError, match=rf"^the bucket {address} cannot be used: .*{why}") as raised:
        await SnapshotBucket(f"{address}/s.duckdb").check()
    assert "\n" not in str(raised.value)
    assert ". Fix: " in str(raised.value)
    assert "secret" not in str(raised.value)


def test_addresses_of_buckets() -> None:
    assert check_url("s3://bucket/a/") == "s3://bucket/a"
    for wrong, why in (("s3://", "no bucket"), ("ftp://x", "not supported"), ("s3://user:secret@bucket", "no bucket")):
        with pytest.raises(ValueError, match=why):
            check_url(wrong)
