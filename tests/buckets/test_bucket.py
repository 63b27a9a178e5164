"""Objects in a bucket of an S3 server, and what can be wrong with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.buckets.address import BucketError, check_url
from connectors.buckets.bucket import Bucket
from tests.buckets.faulty_s3 import Fault, faulty_proxy
from tests.buckets.s3 import s3_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.mark.parametrize("fault", [None, "error", "error_after", "answer_lost"])
async def test_objects_are_written_whole_replaced_listed_and_deleted_although_requests_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: dict[str, str], fault: Fault | None
) -> None:
    faults: list[Fault] = []
    with faulty_proxy(s3["AWS_ENDPOINT_URL"], lambda *_: faults.pop() if faults else None) as url:
        for name, value in (s3 | {"AWS_ENDPOINT_URL": url}).items():
            monkeypatch.setenv(name, value)
        bucket = Bucket(f"s3://bucket/{tmp_path.name}")

        def next_request_fails() -> None:
            faults[:] = [] if fault is None else [fault]

        assert await bucket.get("runs/1/a") is None
        for data in (b"one", b"two"):
            next_request_fails()
            await bucket.put("runs/1/a", data)
        await bucket.put("runs/2/b", b"")
        next_request_fails()
        assert await bucket.get("runs/1/a") == b"two"
        assert await bucket.get("runs/2/b") == b""
        next_request_fails()
        assert await bucket.list("runs/") == ["runs/1/a", "runs/2/b"]
        assert await bucket.list("nothing/") == []
        next_request_fails()
        await bucket.delete(["runs/1/a", "runs/1/never"])
        assert await bucket.list("runs/") == ["runs/2/b"]
    assert not faults


async def test_an_error_of_the_bucket_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, s3: dict[str, str]
) -> None:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BucketError, match=r"^the bucket s3://none cannot be used: [^\n]+Fix: check the bucket's name"):
        await Bucket("s3://none").put("a", b"b")


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
    with pytest.raises(BucketError, match=rf"^the bucket {url} cannot be used: .*{why}") as raised:
        await Bucket(url).put("a", b"b")
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
