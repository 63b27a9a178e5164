"""Items that the warehouse has are not sent to it again, and their changes are still found."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.warehouse.ingest.split import hash_of
from flows.cluster.batch_log import decode
from flows.cluster.typed_parts import TypedPartWriter
from flows.cluster.worker import unfinished_ids
from models.page_commit import PageCommit
from models.schema.mapping_built_in import BUILT_IN
from tests.flows.cluster.test_flows_cluster_modes import ClusterStage
from tests.flows.feeds import daily
from tests.store.memory import MemoryStore
from tests.warehouse.rig import POSTS, STORIES, Item, Scan, at

pytestmark = pytest.mark.anyio


def payloads(part: bytes | None) -> list[str]:
    """The texts of the items in a part, empty for those that were not sent."""
    if part is None:
        return []
    with pa.ipc.open_stream(part) as reader:
        return [text for batch in reader for text in batch["payload"].to_pylist()]


def sent(store: MemoryStore, run: int) -> list[str]:
    """The texts of the items that the workers of a run sent."""
    keys = [key for key in store.objects if key.startswith(f"runs/{run:08}/") and key.rpartition("/")[2].isdigit()]
    return [text for key in keys for text in payloads(decode(store.objects[key]).part) if text]


async def test_an_unchanged_item_is_sent_once(tmp_path: Path) -> None:
    runs = ClusterStage(tmp_path, daily(30))
    await runs.sync(mode="full_refresh")
    first = sent(runs.store, 1)
    runs.grow(2)
    runs.service.feeds[1].posts[5].likes += 1
    await runs.sync(mode="full_refresh")
    assert (len(first), len(sent(runs.store, 2))) == (len(runs.likes()) - 2, 3)
    assert {media_id for media_id, likes in runs.likes().items() if likes} == {"1-5"}
    assert runs.likes().keys() >= runs.truth().keys()


def pages(*items: Sequence[Item]) -> list[PageCommit]:
    scan = Scan(POSTS, "scan", at(0))
    return [scan.page(each, at(number), last=number == len(items)) for number, each in enumerate(items, 1)]


def stored(*items: Item) -> bytes:
    return b"".join(hash_of(json.dumps(item, separators=(",", ":")).encode()) for item in items)


OLD, NEW, OTHER = {"id": "1", "n": 1}, {"id": "1", "n": 2}, {"id": "2"}


async def test_an_item_that_changed_and_changed_back_is_sent_both_times() -> None:
    parts = TypedPartWriter(BUILT_IN, {}, {POSTS: stored(OLD, OTHER)})
    _, part = parts.move_items(tuple(pages([OLD, OTHER], [NEW], [OLD, OTHER])))
    assert list(map(bool, payloads(part))) == [False, False, True, True, False]


async def test_items_of_a_partition_without_stored_hashes_are_sent() -> None:
    parts = TypedPartWriter(BUILT_IN, {}, {STORIES: stored(OLD)})
    _, part = parts.move_items(tuple(pages([OLD])))
    assert all(payloads(part))


async def test_pages_without_items_to_move_stay_as_they_are() -> None:
    parts = TypedPartWriter(BUILT_IN, {}, {})
    [broken] = pages([OLD])
    assert broken.page is not None
    text = Scan(POSTS, "scan", at(0)).page([], at(1), text='{"items":1}')
    assert parts.move_items((text, PageCommit())) == ((text, PageCommit()), None)


async def test_the_ids_of_unfinished_scans_are_kept() -> None:
    finished = pages([OLD])
    unfinished = pages([OTHER], [NEW])[:1]
    assert unfinished_ids(finished, BUILT_IN) == {}
    assert unfinished_ids(unfinished, BUILT_IN) == {"scan": ["2"]}
