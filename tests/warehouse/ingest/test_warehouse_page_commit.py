import json
from dataclasses import replace

import duckdb
import pytest

from connectors.warehouse.ingest.landing.page_commit import last_seq
from models.page_commit import PageCommit, RejectedRecord, ScopeCooldown
from models.partition import CATALOGUE
from models.runs import Outcome, OutcomeKind
from tests.warehouse.rig import ANNA, POSTS, STORIES, T0, Rig, Scan, at


def outcome(kind: OutcomeKind = OutcomeKind.COMPLETE) -> Outcome:
    return Outcome(
        POSTS, "run-1", kind, T0, at(1), pages=2, items=3, error_code="rate_limited", http_status=429,
        correlation_id="c", resume_after=at(2), detail="It's \"so\"\nand so.",
    )  # fmt: skip


def test_many_landings_share_one_transaction_and_are_numbered(rig: Rig) -> None:
    posts, stories = Scan(POSTS, "p", T0), Scan(STORIES, "s", T0)
    landings = [
        posts.page([{"id": "1"}], at(1)),
        PageCommit(cooldown=ScopeCooldown("catalogue", at(5), at(4))),
        stories.page([], at(1), last=True),
        PageCommit(outcomes=(outcome(), outcome(OutcomeKind.FAILED))),
        posts.abandon(at(2)),
    ]
    rig.land(*landings)
    assert rig.seq == 5
    assert rig.rows("SELECT seq, scan_id, page FROM ops.staging ORDER BY seq") == [(1, "p", 1), (3, "s", 1)]
    assert rig.rows("SELECT seq, scan_id, pages, items, state, cursor FROM ops.checkpoints ORDER BY seq") == [
        (1, "p", 1, 1, "scanning", "p/1"),
        (3, "s", 1, 0, "complete", None),
        (5, "p", 1, 1, "abandoned", None),
    ]
    assert rig.rows("SELECT * FROM ops.cooldowns") == [("catalogue", at(5), at(4))]
    assert rig.value("SELECT count(*) FROM core.run_outcomes") == 2


def test_landing_numbers_continue_even_if_all_pages_are_merged(rig: Rig) -> None:
    with rig.connection.begin():
        assert last_seq(rig.connection) == 0
    scan = Scan(POSTS, "p", T0)
    rig.land(scan.page([], at(1)), scan.page([], at(2)))
    rig.merge()
    assert rig.value("SELECT count(*) FROM ops.staging") == 0
    with rig.connection.begin():
        assert last_seq(rig.connection) == 2


def test_an_outcome_keeps_every_column(rig: Rig) -> None:
    rig.land(PageCommit(outcomes=(outcome(),)))
    assert rig.row("SELECT * FROM core.run_outcomes") == (
        "run-1", "media", ANNA, "posts", "complete", 2, 3, "rate_limited", 429, "c", at(2),
        "It's \"so\"\nand so.", T0, at(1),
    )  # fmt: skip


@pytest.mark.parametrize(
    "caption",
    [
        "плов 🍲 👩‍👩‍👧",
        "it's \"quoted\" \\ and ' again; DROP TABLE core.media --",
        "a\u0000b\u001f\u007f\u2028",
        "one\ntwo\r\nthree\ttabs",
        "\ufffe\U0010ffff",
        "x" * 200_000,
        "🍲\\u0000\n" * 20_000,
        "{'a': 1}",
        "[1, 2]",
        "null",
        "",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_page_is_staged_and_merged_to_the_last_character(rig: Rig, caption: str) -> None:
    landing = Scan(POSTS, "p", T0).page([{"id": "1", "caption": caption}], at(1), last=True)
    rig.land(landing)
    assert landing.page is not None
    assert rig.value("SELECT body FROM ops.staging") == landing.page.body
    rig.merge()
    found, payload = rig.row(f"SELECT caption, gh_payload FROM {rig.kept()}")
    assert found == caption
    assert json.loads(payload) == {"id": "1", "caption": caption}


def test_rejected_records_and_unknown_fields_travel_as_json(rig: Rig) -> None:
    aside = RejectedRecord(3, 'no "id"', '{"a":"\\u0000é"}')
    rig.land(Scan(CATALOGUE, "c", T0).page([], at(1), rejected=(aside,), unknown_fields=("items[].a'b",)))
    rejected, unknown = rig.row("SELECT rejected, unknown_fields FROM ops.staging")
    (record,) = json.loads(rejected)
    assert record == {"position": 3, "reason": 'no "id"', "payload": '{"a":"\\u0000é"}', "unknown_status": None}
    assert json.loads(unknown) == ["items[].a'b"]


def test_a_transaction_that_fails_leaves_nothing(rig: Rig) -> None:
    good = Scan(POSTS, "p", T0).page([{"id": "1"}], at(1))
    assert good.page is not None
    bad = replace(good, page=replace(good.page, scan_id=None))  # type: ignore[arg-type]
    cooldown, ended = PageCommit(cooldown=ScopeCooldown("s", at(1))), PageCommit(outcomes=(outcome(),))
    with pytest.raises(duckdb.ConstraintException, match="NOT NULL"):
        rig.land(good, cooldown, ended, bad)
    for table in ("ops.staging", "ops.checkpoints", "ops.cooldowns", "core.run_outcomes"):
        assert rig.value(f"SELECT count(*) FROM {table}") == 0
    rig.land(good)
    assert rig.value("SELECT count(*) FROM ops.staging") == 1
