"""The events of a run: their names, labels and texts."""

import json
from dataclasses import asdict

from flows.engine.retrying import Retry
from flows.reporting.events import events, failure_event
from flows.reporting.summary import Drift, Field, OutcomeCount, Tokens, Truncated
from flows.reporting.words import code, plain
from models.runs import OutcomeKind, RunState, RunWarning
from tests.flows.summaries import HOSTILE, START, failure, fresh, hostile, run, summary, tokens


def test_a_run_without_problems_emits_one_event() -> None:
    [message] = events(summary())
    assert message.name == "gramhouse.run.complete"
    assert message.labels == {
        "prefect.resource.id": "gramhouse.run.run-1",
        "prefect.resource.name": "sync 2026-03-01 02:15",
        "gramhouse.kind": "sync",
        "gramhouse.scope": "everything",
        "gramhouse.state": "complete",
    }
    assert message.payload["sentence"].startswith("Complete: nothing needs attention. The sync")
    assert (message.payload["items"], message.payload["failure_groups"]) == (12_000, [])


def test_the_scope_label_distinguishes_full_from_partial_runs() -> None:
    asked = (run(), run(selection="stories"), run(kind="backfill", selection="anna: posts"))
    scopes = [events(summary(run=each))[0].labels["gramhouse.scope"] for each in asked]
    assert scopes == ["everything", "some", "chosen"]


def test_tokens_are_reported_with_names_and_labels() -> None:
    _, message = events(summary(tokens=Tokens(tokens("anna", "ben", total=30), tokens("carl"), tokens("dora"))))
    assert message.name == "gramhouse.tokens"
    labels = {name: message.labels[f"gramhouse.{name}"] for name in ("newly_expired", "recovered", "still_expired")}
    assert labels == {"newly_expired": "yes", "recovered": "yes", "still_expired": "yes"}
    assert message.payload["sentence"] == (
        "30 accounts newly expired: anna, ben and 28 more. Their owners must reconnect"
        " them; the next sync then fetches their media. Active again: carl. Still expired: 1 account."
    )
    assert message.payload["newly_expired"] == {
        "total": 30,
        "accounts": [
            {"account_id": "id of anna", "ig_username": "anna"},
            {"account_id": "id of ben", "ig_username": "ben"},
        ],
    }


def test_tokens_that_were_expired_before_match_no_alarm() -> None:
    _, message = events(summary(tokens=Tokens(still=tokens("dora"))))
    assert (message.labels["gramhouse.newly_expired"], message.labels["gramhouse.recovered"]) == ("no", "no")
    assert message.payload["sentence"] == "Still expired: 1 account."


def test_a_sentence_names_twenty_and_the_payload_all_that_are_known() -> None:
    _, message = events(summary(tokens=Tokens(newly=tokens(*(f"user_{n}" for n in range(50)), total=60))))
    assert "user_19 and 40 more." in message.payload["sentence"]
    assert len(message.payload["newly_expired"]["accounts"]) == 50


def test_a_partial_run_lists_fixable_problems_first() -> None:
    put_off = failure(OutcomeKind.DEFERRED, "rate_limited", scans=9, resume_after=START)
    failed = failure(OutcomeKind.NOT_FOUND, "http_404", scans=2, detail="Gone.", examples=())
    [message] = events(summary(run=run(state=RunState.PARTIAL), failure_groups=Truncated(2, (put_off, failed))))
    assert message.name == "gramhouse.run.partial"
    assert " First: 2 scans not found, http_404: Gone. Fix: check whether the account" in message.payload["sentence"]
    first, second = message.payload["failure_groups"]
    assert (first["outcome"], first["correlation_id"], first["resume_after"]) == (
        "deferred",
        "TRACE",
        "2026-03-01T02:15:00+00:00",
    )
    assert (second["scans"], second["correlation_id"], second["resume_after"]) == (2, "", None)
    [message] = events(summary(run=run(state=RunState.PARTIAL), failure_groups=Truncated(1, (put_off,))))
    assert message.payload["sentence"].endswith(" First: 9 scans deferred, rate_limited: No.")


def test_the_event_of_a_run_has_its_warnings_and_names_those_that_make_it_partial() -> None:
    missing = RunWarning("accounts_missing", 30, "30 accounts are missing.", "Check the key.", makes_partial=True)
    noted = RunWarning("values_not_cast", 2, "2 values could not be cast.")
    [event] = events(summary(warnings=(missing, noted)))
    assert event.payload["warnings"] == [asdict(missing), asdict(noted) | {"hint": ""}]
    assert event.payload["sentence"].endswith(" 30 accounts are missing. Fix: Check the key.")


def test_a_failed_run_is_reported_as_failed() -> None:
    lost = (OutcomeCount("", OutcomeKind.FAILED, 1),)
    [message] = events(summary(run=run(state=RunState.FAILED), outcomes=lost))
    assert message.name == "gramhouse.run.failed"
    assert message.payload["sentence"].startswith("Failed: 1 scan failed.")


def test_a_run_that_is_retried_raises_no_alarm_yet() -> None:
    failed = summary(
        run=run(state=RunState.FAILED),
        outcomes=(OutcomeCount("", OutcomeKind.FAILED, 1),),
        tokens=Tokens(newly=tokens("anna")),
        freshness=(fresh(overdue=2),),
    )
    message = events(failed, Retry(1, 3, 300.0, "connection_failed"))
    assert [each.name for each in message] == ["gramhouse.retry", "gramhouse.tokens"]
    assert (
        message[0].payload["sentence"].startswith("Retry 1 of 3 in 5 min (connection_failed). Failed: 1 scan failed.")
    )
    assert [each.name for each in events(failed)] == ["gramhouse.run.failed", "gramhouse.tokens", "gramhouse.stale"]


def test_stale_surfaces_are_reported_by_name() -> None:
    _, message = events(summary(freshness=(fresh(overdue=2), fresh("stories"))))
    assert message.name == "gramhouse.stale"
    assert message.labels["gramhouse.posts"] == "yes"
    assert "gramhouse.stories" not in message.labels
    assert message.payload["sentence"] == "No completed scan within 1 d 12 h: posts of 2 accounts."
    assert message.payload["overdue"] == {"posts": 2}


def test_drift_is_reported_with_the_fields() -> None:
    new = Truncated(3, (Field("media", "/mood", "VARCHAR"),))
    retyped = Truncated(1, (Field("media", "/views", "VARCHAR"),))
    _, message = events(summary(drift=Drift(new, retyped)))
    assert message.name == "gramhouse.drift"
    assert (message.labels["gramhouse.new"], message.labels["gramhouse.retyped"]) == ("yes", "yes")
    assert message.payload["sentence"] == ("New fields: /mood and 2 more. Fields with a changed type: /views.")
    _, message = events(summary(drift=Drift(retyped=retyped)))
    assert (message.labels["gramhouse.new"], message.payload["new"]) == ("no", [])


def test_a_run_without_a_report_emits_a_failure_without_a_scope() -> None:
    message = failure_event("data/warehouse.duckdb cannot be opened:\nit is `no` DuckDB file")
    assert message.name == "gramhouse.run.failed"
    assert message.labels["prefect.resource.id"] == "gramhouse.run.without-report"
    assert "gramhouse.scope" not in message.labels
    assert message.payload["sentence"] == (
        "A run ended without a report: data/warehouse.duckdb cannot be opened: it is 'no' DuckDB file"
    )


def test_external_values_contain_no_mentions_links_or_templates() -> None:
    for message in events(hostile()):
        written = json.dumps([dict(message.labels), message.payload], ensure_ascii=False)
        texts = json.loads(written, object_pairs_hook=lambda pairs: [value for _, value in pairs])
        output = json.dumps(texts, ensure_ascii=False).replace("[", "").replace("]", "")
        assert not any(sign in output for sign in ("<", ">", "{", "}", "@", "`", "|", "*", "~", "://"))
        assert output.isprintable()


def test_each_name_is_reported_once_at_most() -> None:
    names = [message.name for message in events(hostile())]
    assert sorted(names) == ["gramhouse.drift", "gramhouse.run.partial", "gramhouse.tokens"]


def test_text_from_outside_in_a_code_span_and_in_a_message() -> None:
    assert [code(text) for text in ("anna", "a|`b`", " \n ", "x" * 200)] == [
        "`anna`",
        "`a¦'b'`",
        "` `",
        f"`{'x' * 79}…`",
    ]
    assert plain("<@U1> [a](https://b.example)") == "«(at)U1» (a)(https: //b.example)"
    assert all(len(plain(text)) < 120 for text in HOSTILE)
