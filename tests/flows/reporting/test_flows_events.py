"""The events of a run: their names, labels and texts."""

import json
from dataclasses import asdict

from connectors.warehouse.merge.run_counts import MergeStats, RunCounts
from flows.reporting.for_prefect import events, failure_event
from flows.reporting.words import code, plain
from models.findings import Finding, Severity
from models.runs import OutcomeKind, RunState
from tests.clocks import START
from tests.flows.reports import HOSTILE, failure, fields, hostile, report, stale, tokens


def test_a_run_without_problems_emits_one_event() -> None:
    [message] = events(report())
    assert message.name == "gramhouse.run.complete"
    assert message.labels == {
        "prefect.resource.id": "gramhouse.run.run-1",
        "prefect.resource.name": "sync 2026-03-01 02:15",
        "gramhouse.kind": "sync",
        "gramhouse.scope": "everything",
        "gramhouse.state": "complete",
    }
    assert message.payload["sentence"].startswith("sync 2026-03-01 02:15 UTC: 100 accounts listed; 300 pages, 12,000")
    assert (message.payload["items"], message.payload["added"], message.payload["findings"]) == (12_000, 40, [])


def test_the_scope_label_distinguishes_full_from_partial_runs() -> None:
    asked = (report(), report(selected="stories"), report(kind="backfill", selected="anna: posts"))
    scopes = [events(each)[0].labels["gramhouse.scope"] for each in asked]
    assert scopes == ["everything", "some", "chosen"]


def test_tokens_are_reported_with_their_label_twenty_names_in_the_sentence_and_fifty_in_the_payload() -> None:
    run, message = events(report({"expired": tokens(*(f"user_{n}" for n in range(60))), "renewed": tokens("carl")}))
    assert (message.name, message.labels["gramhouse.newly_expired"]) == ("gramhouse.tokens", "yes")
    assert "user_19 and 40 more)." in message.payload["sentence"]
    assert [len(finding["accounts"]) for finding in message.payload["findings"]] == [50, 1]
    assert len(run.payload["findings"][0]["accounts"]) == 50


def test_a_partial_run_begins_with_what_a_person_can_fix() -> None:
    deferred = failure(OutcomeKind.DEFERRED, "rate_limited", scans=9, resume_after=START)
    failed = failure(OutcomeKind.NOT_FOUND, "api_automation_media_not_found", scans=2, detail="Gone.")
    [message] = events(report(state=RunState.PARTIAL, failure_groups=(deferred, failed)))
    assert message.name == "gramhouse.run.partial"
    assert message.payload["sentence"].startswith(
        "2 scans not found (api_automation_media_not_found, correlation id TRACE): Gone (anna). Fix: check whether"
    )
    assert "9 scans deferred until 2026-03-01 02:15:00 UTC (rate_limited," in message.payload["sentence"]
    first, second = message.payload["failure_groups"]
    assert (first["outcome"], first["examples"][0]["correlation_id"], first["resume_after"]) == (
        "deferred",
        "TRACE",
        "2026-03-01T02:15:00+00:00",
    )
    assert (second["scans"], second["resume_after"]) == (2, None)


def test_the_event_of_a_run_has_its_warnings_and_the_counts_of_resumed_runs() -> None:
    missing = Finding("accounts_missing", Severity.ACTION, "30 accounts are missing", "check the key", count=30)
    resumed = RunCounts("run-0", "sync", RunState.INTERRUPTED, START, 30, 1200, 0, MergeStats(added=9))
    event, *_ = events(report(warnings=(missing,), resumed=(resumed,)))
    assert event.payload["findings"] == [asdict(missing) | {"accounts": []}]
    [before] = event.payload["resumed"]
    assert (before["run_id"], before["pages"], before["added"]) == ("run-0", 30, 9)


def test_a_run_that_is_retried_raises_no_alarm_yet() -> None:
    data = {"expired": tokens("anna"), **stale("ben")}
    failed = report(data, state=RunState.FAILED, failure_groups=(failure(OutcomeKind.FAILED, "timeout"),))
    message = events(failed, "Retry 1 of 3 in 5 min (timeout)")
    assert [each.name for each in message] == ["gramhouse.retry", "gramhouse.tokens"]
    assert message[0].payload["sentence"].startswith("Retry 1 of 3 in 5 min (timeout). 1 access token newly expired")
    assert [each.name for each in events(failed)] == ["gramhouse.run.failed", "gramhouse.tokens", "gramhouse.stale"]


def test_drift_is_reported_with_the_fields() -> None:
    _, message = events(report({"new_fields": fields("/mood"), "retyped_fields": fields("/views")}))
    assert message.name == "gramhouse.drift"
    assert message.payload["sentence"] == ("1 new field: /mood (VARCHAR). 1 retyped field: /views (VARCHAR).")
    _, message = events(report({"retyped_fields": fields("/views")}))
    assert [finding["code"] for finding in message.payload["findings"]] == ["retyped_fields"]


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


def test_text_from_outside_in_a_code_span_and_in_a_message() -> None:
    assert [code(text) for text in ("anna", "a|`b`", " \n ", "x" * 200)] == [
        "`anna`",
        "`a¦'b'`",
        "` `",
        f"`{'x' * 79}…`",
    ]
    assert plain("<@U1> [a](https://b.example)") == "«(at)U1» (a)(https: //b.example)"
    assert all(len(plain(text)) < 120 for text in HOSTILE)
