"""Page commits become frames and come back from their bytes unchanged, and the merge stores all that they contain."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.warehouse.ingest.landing.batches import Merged, batches_of
from connectors.warehouse.ingest.landing.frames import Frame, as_bytes, frame, frames_of
from models.checkpoint import ScanState
from models.page_commit import PageCommit, RejectedRecord, ScopeCooldown
from models.partition import CATALOGUE
from models.runs import Outcome, OutcomeKind
from tests.warehouse.rig import ANNA, POSTS, STORIES, T0, Rig, Scan, at


def outcome(kind: OutcomeKind = OutcomeKind.COMPLETE) -> Outcome:
    return Outcome(
        POSTS, "run-1", kind, T0, at(1), pages=2, items=3, error_code="rate_limited", http_status=429,
        correlation_id="c", resume_after=at(2), detail="It's \"so\"\nand so.",
    )  # fmt: skip


def commits() -> list[PageCommit]:
    posts, stories = Scan(POSTS, "p", T0), Scan(STORIES, "s", T0)
    aside = RejectedRecord(3, 'no "id"', '{"a":"\\u0000é"}', "anna", "odd")
    return [
        posts.page([{"id": "1", "caption": "плов 🍲"}], at(1), rejected=(aside,), unknown_fields=("items[].a'b",)),
        PageCommit(cooldown=ScopeCooldown("catalogue", at(5), at(4))),
        stories.page([], at(1), last=True),
        PageCommit(outcomes=(outcome(), outcome(OutcomeKind.FAILED))),
        posts.abandon(at(2)),
        PageCommit(),
    ]


def test_frames_come_back_from_their_bytes_unchanged() -> None:
    landed = commits()
    data = b"".join(as_bytes(frame(seq, commit)) for seq, commit in enumerate(landed, 1))
    read = [one for one, _ in frames_of(data, 0, summed=True)]
    assert [one.seq for one in read] == [1, 2, 3, 4, 5, 6]
    for one, commit in zip(read, landed, strict=True):
        body = bytes(one.body).decode()
        page = None if one.commit.page is None else replace(one.commit.page, body=body)
        assert replace(one.commit, page=page) == commit
    assert [one.partition for one in read] == [POSTS, None, STORIES, None, POSTS, None]


def test_a_merge_stores_checkpoints_outcomes_and_cooldowns(rig: Rig) -> None:
    rig.record(*commits())
    assert rig.rows(
        "SELECT seq, began_seq, scan_id, pages, items, state, cursor FROM ops.checkpoints ORDER BY seq"
    ) == [
        (3, 3, "s", 1, 0, "complete", None),
        (5, 1, "p", 1, 1, "abandoned", None),
    ]
    assert rig.rows("SELECT * FROM ops.cooldowns") == [("catalogue", at(5), at(4))]
    assert rig.rows("SELECT * FROM core.run_outcomes ORDER BY outcome") == [
        (
            "run-1", "media", ANNA, "posts", kind, 2, 3, "rate_limited", 429, "c", at(2), "It's \"so\"\nand so.", T0,
            at(1),
        )
        for kind in ("complete", "failed")
    ]  # fmt: skip
    assert rig.row("SELECT merged_seq, merged_ahead FROM ops.warehouse") == (6, [])


def test_a_frame_is_merged_once(rig: Rig) -> None:
    """As after a kill between the commit of a merge and the deletion of its segments."""
    rig.land(*commits())
    segment = rig.segment
    rig.merge()
    before = rig.everything()
    rig.segment = segment
    rig.merge()
    assert rig.everything() == before


# A partition and the state of its scan after the frame; without a partition, a frame with a cooldown.
LANDED = st.lists(st.tuples(st.sampled_from((None, CATALOGUE, POSTS, STORIES)), st.sampled_from(ScanState)))


def story(drawn: list[tuple[object, ScanState]]) -> list[Frame]:
    scans = {partition: Scan(partition, str(partition), T0) for partition in (CATALOGUE, POSTS, STORIES)}
    frames = []
    for seq, (partition, state) in enumerate(drawn, 1):
        if partition is None:
            frames.append(Frame(seq, PageCommit(cooldown=ScopeCooldown("s", T0))))
        else:
            checkpoint = replace(scans[partition].checkpoint, state=state)  # type: ignore[index]
            frames.append(Frame(seq, PageCommit(checkpoint=checkpoint)))
    return frames


@given(LANDED)
@settings(max_examples=200, deadline=None, database=None)
def test_a_batch_holds_a_closed_scan_of_a_partition_only_at_its_end(drawn: list[tuple[object, ScanState]]) -> None:
    frames = story(drawn)
    batches = batches_of(frames)
    assert sorted(one.seq for batch in batches for one in batch) == [one.seq for one in frames]
    order: dict[object, list[int]] = {}
    for batch in batches:
        closed = set()
        for one in batch:
            assert one.partition is None or one.partition not in closed
            order.setdefault(one.partition, []).append(one.seq)
            if one.commit.checkpoint is not None and one.commit.checkpoint.is_closed:
                closed.add(one.partition)
    assert all(seqs == sorted(seqs) for seqs in order.values())
    # There are as few as possible: one more than the scans of a partition that were closed before another page of it.
    most = 0
    for partition in (CATALOGUE, POSTS, STORIES):
        states = [state for of, state in drawn if of == partition]
        most = max(most, sum(state in (ScanState.COMPLETE, ScanState.RECENT) for state in states[:-1]))
    assert len(batches) == (most + 1 if frames else 0)


@given(LANDED, st.integers(0, 3))
@settings(max_examples=200, deadline=None, database=None)
def test_the_batches_that_are_merged_are_known_after_a_kill(
    drawn: list[tuple[object, ScanState]], survives: int
) -> None:
    frames = [Frame(one.seq + 10, one.commit) for one in story(drawn)]
    merged, done = Merged(10), set[int]()
    for _ in range(survives):
        batches = batches_of(one for one in frames if one.seq not in merged)
        if batches:
            merged = merged.with_batch(batches[0], [one for batch in batches[1:] for one in batch])
            done |= {one.seq for one in batches[0]}
    assert {one.seq for one in frames if one.seq in merged} == done
    if len(done) == len(frames):
        assert merged == Merged(10 + len(frames))
