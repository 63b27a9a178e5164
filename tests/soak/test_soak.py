"""A short soak test: a few runs in one process, and fewer in separate processes, leave nothing behind."""

import asyncio
import threading
from pathlib import Path

import pytest

from tests.soak.child_process import soak_apart
from tests.soak.growth import Limits, complaints
from tests.soak.measuring import vitals
from tests.soak.rig import served, soak_fresh
from tests.soak.samples import Sample

pytestmark = pytest.mark.e2e

# So few runs tell a leak only where it is large: a page that is never let go, a file that stays. A heap grows by 2 MB
# at once: by less than the limit for each of the twelve runs that are looked at.
FEW = Limits(warm_up=6, resident=400.0)
FRESH = Limits(warm_up=1)
SMALL = ("--accounts", "3", "--posts", "8", "--seed", "11")


@pytest.mark.long
def test_runs_in_one_process_leave_nothing_behind(tmp_path: Path) -> None:
    with served(*SMALL) as service:
        samples = soak_apart(tmp_path, service, runs=18)
    assert list(complaints(samples, FEW)) == []
    assert len(samples) == 18
    assert samples[-1].rows > samples[0].rows


@pytest.mark.long
def test_runs_in_processes_of_their_own_leave_nothing_behind(tmp_path: Path) -> None:
    samples = list[Sample]()
    with served(*SMALL) as service:
        soak_fresh(tmp_path, service, runs=3, every=1, watch=samples.append)
    assert list(complaints(samples, FRESH)) == []
    assert len(samples) == 3


def test_leaks_are_detected(tmp_path: Path) -> None:
    asyncio.run(_leave_behind(tmp_path))


async def _leave_behind(folder: Path) -> None:
    before = vitals()
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    task = asyncio.create_task(asyncio.Event().wait())
    with (folder / "left.open").open("w", encoding="utf-8"):
        thread.start()
        meanwhile = vitals()
    over.set()
    thread.join()
    task.cancel()
    assert (meanwhile.descriptors, meanwhile.threads, meanwhile.tasks) == (
        before.descriptors + 1,
        before.threads + 1,
        before.tasks + 1,
    )
