"""The stores conform to `ObjectStore`: a folder, and a bucket of an S3 server."""

import asyncio
import errno
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from connectors.store.address import check_url
from connectors.store.bucket import BucketStore
from connectors.store.folder import FolderStore
from connectors.store.object_store import ObjectStore, StoreError, StoreUnavailableError
from connectors.store.opening import open_store
from connectors.store.probe import probe
from flows.engine.clock import SystemClock
from tests.store.memory import ForgetfulStore, MemoryStore, OverwritingStore, RacingStore
from tests.store.s3 import s3_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "folder":
        return open_store(str(tmp_path / "shared" / "store"), clock=SystemClock())
    for name, value in request.getfixturevalue("s3").items():
        monkeypatch.setenv(name, value)
    return open_store(f"s3://bucket/{tmp_path.name}", clock=SystemClock())


async def test_objects_are_written_whole_replaced_listed_and_deleted(store: ObjectStore) -> None:
    assert await store.get("runs/1/a") is None
    await store.put("runs/1/a", b"one")
    await store.put("runs/1/a", b"two")
    await store.put("runs/2/b", b"")
    assert await store.get("runs/1/a") == b"two"
    assert await store.get("runs/2/b") == b""
    assert await store.list("runs/") == ["runs/1/a", "runs/2/b"]
    assert await store.list("runs/1/") == ["runs/1/a"]
    assert await store.list("nothing/") == []
    await store.delete(["runs/1/a", "runs/1/never"])
    assert await store.list("runs/") == ["runs/2/b"]


async def test_only_one_of_many_concurrent_creates_succeeds(store: ObjectStore) -> None:
    for key in ("a", "b/c"):
        won = await asyncio.gather(*(store.create(key, str(rival).encode()) for rival in range(12)))
        assert sum(won) == 1
        assert await store.get(key) == str(won.index(True)).encode()
        assert not await store.create(key, b"late")


async def test_the_probe_accepts_a_store_that_creates_once_and_leaves_nothing(store: ObjectStore) -> None:
    ids = count()
    await probe(store, "here", new_id=lambda: str(next(ids)))
    assert await store.list("probe/") == []


@pytest.mark.parametrize("kind", [OverwritingStore, RacingStore, ForgetfulStore])
async def test_the_probe_refuses_a_store_that_overwrites(kind: type[MemoryStore]) -> None:
    store = kind()
    with pytest.raises(StoreError, match=r"accepted an object that already existed.*Fix: use a store"):
        await probe(store, "s3://bucket", new_id=lambda: "1")
    assert store.objects == {}


async def test_the_store_in_memory_creates_once() -> None:
    await probe(MemoryStore(), "here", new_id=lambda: "1")


async def test_an_error_of_the_bucket_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, s3: dict[str, str]
) -> None:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=r"^the store s3://none cannot be used: [^\n]+Fix: check the bucket's name"):
        await BucketStore("s3://none").put("a", b"b")


@pytest.mark.parametrize(
    ("url", "changes", "why"),
    [
        ("s3://none", {}, r"404 Not Found \(NoSuchBucket\)\. Fix: .*AWS_ACCESS_KEY_ID"),
        ("s3://a bucket", {}, "invalid domain character"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, r"\(Connection refused\)"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "nowhere"}, "AWS_ENDPOINT_URL is not an address"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": ""}, "AWS_ENDPOINT_URL is not an address"),
        ("s3://bucket", {"AWS_ALLOW_HTTP": "false"}, "is not https://. Fix: use https://, or set AWS_ALLOW_HTTP=true"),
        ("s3://bucket", {"AWS_ACCESS_KEY_ID": "a\n"}, "AWS_ACCESS_KEY_ID begins or ends with a space or a line break"),
        ("s3://bucket", {"AWS_ACCESS_KEY_ID": "a\nb"}, "panicked"),
        ("az://bucket", {}, r"Account must be specified\. Fix: .*AZURE_STORAGE_ACCOUNT_NAME"),
        (
            "az://bucket",
            {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": "?a secret"},
            "Invalid Access",
        ),
        (
            "az://bucket",
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "a",
                "AZURE_STORAGE_SAS_TOKEN": "sv=2021-08-06&sig=a%20secret",
                "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1/a",
                "AZURE_ALLOW_HTTP": "true",
            },
            r"\(Connection refused\)",
        ),
        (
            "gs://bucket",
            {"GOOGLE_SERVICE_ACCOUNT": "/none.json"},
            "/none.json: No such file.* Fix: .*GOOGLE_SERVICE_ACC",
        ),
        ("gs://bucket", {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"private_key": "a secret"'}, "Unable to decode"),
    ],
)
async def test_wrong_settings_of_a_bucket_are_reported_in_one_line_without_secrets(
    monkeypatch: pytest.MonkeyPatch, s3: dict[str, str], url: str, changes: dict[str, str], why: str
) -> None:
    for name, value in (s3 | changes).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=rf"^the store {url} cannot be used: .*{why}") as raised:
        await probe(BucketStore(url), url, new_id=lambda: "1")
    assert "\n" not in str(raised.value)
    assert ". Fix: " in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"cannot be used: File exists\. Fix: make the folder writable"):
        await FolderStore(str(tmp_path / "file")).put("a", b"b")
    with pytest.raises(StoreError, match="cannot be used"):
        await FolderStore(str(tmp_path / "file")).create("a", b"b")


async def test_a_link_that_nfs_repeats_finds_its_own_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def repeated(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", repeated)
    store = FolderStore(str(tmp_path))
    assert await store.create("a", b"one")
    assert not await store.create("a", b"one")
    assert await store.get("a") == b"one"


@pytest.mark.parametrize(("number", "kind"), [(errno.ESTALE, StoreUnavailableError), (errno.ENOSPC, StoreError)])
async def test_a_folder_distinguishes_transient_from_permanent_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError]
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match="cannot be used") as raised:
        await FolderStore(str(tmp_path)).create("a", b"one")
    assert raised.type is kind
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_drafts_are_not_listed_and_do_not_stay(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    (tmp_path / ".draft-left-by-a-kill").write_bytes(b"half")
    asyncio.run(store.put("a", b"b"))
    assert asyncio.run(store.list("")) == ["a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".draft-left-by-a-kill", "a"]


def test_addresses_of_stores() -> None:
    assert check_url("s3://bucket/a/") == "s3://bucket/a"
    assert check_url("folder") == str(Path("folder").absolute())
    for wrong, why in {
        "s3://": "no bucket",
        "ftp://x": "not supported",
        "s3://user:secret@bucket": "no bucket",
    }.items():
        with pytest.raises(ValueError, match=why):
            check_url(wrong)
