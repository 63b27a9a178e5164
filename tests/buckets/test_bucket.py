"""A snapshot in a bucket of an S3 server, and what can be wrong with it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from connectors.buckets.address import BucketError, check_url, open_snapshot_bucket
from tests.buckets.faulty_s3 import Fault, faulty_proxy
from tests.buckets.s3 import s3_server

pytestmark = pytest.mark.anyio

AT = datetime(2026, 3, 1, 2, 15, 0, 123456, tzinfo=UTC)
IDS = count(10_000_000)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.mark.parametrize("fault", [None, "error", "error_after", "answer_lost"])
async def test_a_snapshot_is_published_and_fetched_although_each_request_fails_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: dict[str, str], fault: Fault | None
) -> None:
    made, file, copy = set[tuple[str, str]](), tmp_path / "published", tmp_path / "analytics.duckdb"

    def fails(*request: str) -> Fault | None:
        is_new = request not in made
        made.add(request)  # type: ignore[arg-type]
        return fault if is_new else None

    with faulty_proxy(s3["AWS_ENDPOINT_URL"], fails) as url:
        for name, value in (s3 | {"AWS_ENDPOINT_URL": url}).items():
            monkeypatch.setenv(name, value)
        bucket = open_snapshot_bucket(f"s3://bucket/{tmp_path.name}/analytics.duckdb")
        assert await bucket.pointer() is None
        await bucket.check()
        for number, content in enumerate((b"one", b"two")):
            file.write_bytes(content)
            at = AT + timedelta(hours=number)
            await bucket.publish(file, "w", at=at, new_id=lambda: str(next(IDS)))
            await bucket.fetch(copy)
            assert copy.read_bytes() == content
        assert await bucket.delete_superseded() == 1
        assert await bucket.delete_superseded() == 0
    assert made


async def test_a_large_file_is_uploaded_in_parts_and_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: dict[str, str]
) -> None:
    content = bytes(range(256)) * 4096 * 17
    (tmp_path / "file").write_bytes(content)
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    bucket = open_snapshot_bucket(f"s3://bucket/{tmp_path.name}/analytics.duckdb")
    await bucket.publish(tmp_path / "file", "w", at=AT, new_id=lambda: str(next(IDS)))
    await bucket.fetch(tmp_path / "analytics.duckdb")
    assert (tmp_path / "analytics.duckdb").read_bytes() == content


@pytest.mark.parametrize(
    ("url", "changes", "why"),
    [
        ("s3://none", {}, r"404 Not Found \(NoSuchBucket\)\. Fix: check the bucket's name.*AWS_ACCESS_KEY_ID"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "nowhere"}, "AWS_ENDPOINT_URL is not an address"),
        ("s3://bucket", {"AWS_ALLOW_HTTP": "false"}, "is not https://. Fix: use https://, or set AWS_ALLOW_HTTP=true"),
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
    with pytest.raises(BucketError, match=rf"^the bucket {url} cannot be used: .*{why}") as raised:
        await open_snapshot_bucket(f"{url}/s.duckdb").check()
    assert "\n" not in str(raised.value)
    assert ". Fix: " in str(raised.value)
    assert "secret" not in str(raised.value)


def test_addresses_of_buckets() -> None:
    assert check_url("s3://bucket/a/") == "s3://bucket/a"
    for wrong, why in {
        "s3://": "no bucket",
        "ftp://x": "not supported",
        "s3://user:secret@bucket": "no bucket",
    }.items():
        with pytest.raises(ValueError, match=why):
            check_url(wrong)
