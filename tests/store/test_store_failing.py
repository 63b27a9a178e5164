"""Stores that fail for a while: repeated calls take effect once, and lasting errors are raised."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from connectors.store.bucket import BucketStore
from connectors.store.object_store import StoreError, StoreUnavailableError
from connectors.store.repeating import RepeatingStore
from tests.clocks import VirtualClock
from tests.store.faulty_s3 import Fault, faulty_proxy
from tests.store.memory import MemoryStore, refuse
from tests.store.s3 import s3_server

pytestmark = pytest.mark.anyio


class FailingStore(MemoryStore):
    """Fails a number of times, before or after the effect of a call."""

    def __init__(self, times: int, *, after: bool) -> None:
        super().__init__()
        self.left = times
        self.after = after

    async def create(self, key: str, data: bytes) -> bool:
        if not self.after:
            self._fail()
        created = await super().create(key, bytes(bytearray(data)))
        self._fail()
        return created

    async def get(self, key: str) -> bytes | None:
        self._fail()
        return await super().get(key)

    def _fail(self) -> None:
        self.left -= 1
        if self.left >= 0:
            message = "the store is away. Fix: bring it back."
            raise StoreUnavailableError(message)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_failed_create_is_repeated_and_recognizes_its_own_object(times: int, *, after: bool) -> None:
    clock, failing = VirtualClock(), FailingStore(times, after=after)
    store = RepeatingStore(failing, clock=clock)
    assert await store.create("a", b"mine")
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0][:times]
    assert failing.objects == {"a": b"mine"}


async def test_a_failed_create_does_not_accept_a_foreign_object() -> None:
    failing = FailingStore(2, after=True)
    failing.objects["a"] = b"theirs"
    assert not await RepeatingStore(failing, clock=VirtualClock()).create("a", b"mine")
    assert failing.objects == {"a": b"theirs"}


async def test_an_existing_object_with_equal_content_is_foreign_if_no_request_failed() -> None:
    store = RepeatingStore(FailingStore(0, after=True), clock=VirtualClock())
    assert await store.create("a", b"same")
    assert not await store.create("a", bytes(bytearray(b"same")))


async def test_requests_to_an_unavailable_store_fail_after_two_minutes() -> None:
    clock = VirtualClock()
    with pytest.raises(StoreUnavailableError, match="is away"):
        await RepeatingStore(FailingStore(1_000, after=False), clock=clock).get("a")
    assert 100 < clock.passed <= 120
    assert max(clock.slept) == 10.0


async def test_permanent_errors_of_the_store_are_not_retried() -> None:
    clock, failing = VirtualClock(), MemoryStore(failure=refuse)
    with pytest.raises(StoreError, match="put of a failed"):
        await RepeatingStore(failing, clock=clock).put("a", b"b")
    assert clock.slept == []


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.mark.parametrize("fault", ["error", "error_after", "answer_lost"])
async def test_a_bucket_repeats_requests_that_fail_over_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: dict[str, str], fault: Fault
) -> None:
    faults: list[Fault] = []
    with faulty_proxy(s3["AWS_ENDPOINT_URL"], lambda *_: faults.pop() if faults else None) as url:
        for name, value in (s3 | {"AWS_ENDPOINT_URL": url}).items():
            monkeypatch.setenv(name, value)
        store = BucketStore(f"s3://bucket/{tmp_path.name}")
        faults.append(fault)
        assert await store.create("a", b"mine")
        faults.append(fault)
        assert not await store.create("a", b"other")
        faults.append(fault)
        await store.put("b", b"put")
        faults.append(fault)
        assert await store.get("a") == b"mine"
        faults.append(fault)
        assert await store.list("") == ["a", "b"]
        faults.append(fault)
        await store.delete(["a", "b"])
        assert await store.list("") == []
    assert not faults


async def test_a_bucket_that_fails_once_in_fifty_keeps_each_object_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: dict[str, str]
) -> None:
    chance, failed = Random(7), [0]
    kinds: list[Fault] = ["error", "error_after", "answer_lost"]

    def fault(*_: str) -> Fault | None:
        fails = chance.random() < 1 / 50
        failed[0] += fails
        return chance.choice(kinds) if fails else None

    with faulty_proxy(s3["AWS_ENDPOINT_URL"], fault) as url:
        for name, value in (s3 | {"AWS_ENDPOINT_URL": url}).items():
            monkeypatch.setenv(name, value)
        first, second = (BucketStore(f"s3://bucket/{tmp_path.name}") for _ in range(2))
        for number in range(150):
            assert await first.create(f"{number:03}", f"first {number}".encode())
            assert not await second.create(f"{number:03}", f"second {number}".encode())
            assert await second.get(f"{number:03}") == f"first {number}".encode()
    assert failed[0] >= 5
