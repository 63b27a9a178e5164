from connectors.warehouse.queries.outcomes import Example, FailureGroup, read_run_failures
from models.partition import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind
from tests.warehouse.days import ANNA, BEN, POSTS, STORIES, T0, Days, at


def outcome(kind: OutcomeKind, partition: Partition, **message: object) -> Outcome:
    return Outcome(partition, "", kind, T0, at(1), **message)  # type: ignore[arg-type]


def test_failures_are_grouped_with_the_largest_group_first(days: Days) -> None:
    limited = {"error_code": "rate_limited", "correlation_id": "c1", "detail": "Wait."}
    of_ben = media(BEN, "posts")
    days.run(
        "r",
        0,
        {
            STORIES: OutcomeKind.COMPLETE,
            CATALOGUE: outcome(OutcomeKind.FAILED, CATALOGUE, error_code="timeout"),
            POSTS: outcome(OutcomeKind.DEFERRED, POSTS, resume_after=at(5), **limited),
            of_ben: outcome(OutcomeKind.DEFERRED, of_ben, resume_after=at(6), **limited),
            media(BEN, "stories"): OutcomeKind.SKIPPED,
        },
    )
    examples = (Example(ANNA, "posts", "c1", ANNA), Example(BEN, "posts", "c1", BEN))
    assert read_run_failures(days.rig.db, "r", now=at(0)) == (
        FailureGroup(OutcomeKind.DEFERRED, "rate_limited", 2, 2, at(6), "Wait.", examples),
        FailureGroup(OutcomeKind.FAILED, "timeout", 1, 1, None, "", (Example("", "", None),)),
    )
