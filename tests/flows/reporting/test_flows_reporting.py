"""The report of a run: what it says about the data, its findings, and that all outputs show the same as text."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pytest
from markdown_it import MarkdownIt

from connectors.source.errors import ApiError
from connectors.warehouse.queries.reader import Record
from connectors.warehouse.storage.sql import statements
from flows.cli.commands import status
from flows.cli.commands.sync import describe_report
from flows.cli.terminal import Answer
from flows.config.settings import load
from flows.reporting.findings import list_findings
from flows.reporting.message import list_events, to_document, to_markdown, to_message
from flows.reporting.page import write_page
from flows.reporting.run_report import NO_DATA, RunReport, read_data
from flows.reporting.words import code, plain
from models.runs import Finding, OutcomeKind, RunState, Severity
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, Records, uuid
from tests.clocks import START
from tests.flows.reports import example, failure, fields, report, stale, tokens
from tests.runs import synced

pytestmark = pytest.mark.anyio

# They must not be interpreted as markup.
HOSTILE = (
    "a|b", "`whoami`", "``", "[click](https://evil.example)", "<script>alert(1)</script>", "<!channel>",
    "line\n## break\r\n| a | b |", "\u202etxt.exe", "\x1b[31mred", "{{ secret }}", "@everyone *loud* ~gone~",
    "https://evil.example/x", "\\", "back\\`slash\\", "![x](https://evil.example/i.png)", "```mermaid",
)  # fmt: skip

DENIED = failure(OutcomeKind.DENIED, scans=5, usernames=("anna", "ben"))
DEFERRED = failure(OutcomeKind.DEFERRED, "rate_limited", scans=9, resume_after=START + timedelta(hours=2))
LONG = failure(OutcomeKind.DEFERRED, "rate_limited", resume_after=START + timedelta(days=2))
KEY = ApiError("accounts.list", "api_unauthorized", "Authentication required.")
STOP = failure(OutcomeKind.FAILED, "api_unauthorized", detail="Authentication required.")
ANNA = {"ig_username": "anna", "surface": "posts", "removals_undecided_since": START, "complete_at": START}
MANY = [*tokens("anna"), *tokens("ben", "carl", is_new=False)]
REJECTED = [{"reason": "no id.", "records": 9}, {"reason": "other", "records": 3}]
GRANT = (
    "Fix: grant the key access to this account in the service's API-key settings; then `gramhouse backfill --failed`."
)

# What a report has, and the beginning of each finding, after its severity and code.
CASES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"failure_groups": (DEFERRED, failure(OutcomeKind.FAILED, "timeout"), LONG, DENIED)},
        [
            "action failed 1 scan failed (timeout, correlation id TRACE): No (anna).",
            f"action denied 5 scans denied (api_forbidden, correlation id TRACE): No (anna, ben). {GRANT}",
            "action long_cooldown 1 scan deferred until 2026-03-03 02:15:00 UTC (rate_limited, correlation id",
            "warning deferred 9 scans deferred until 2026-03-01 04:15:00 UTC (rate_limited,",
        ],
    ),
    (
        {"failure_groups": (replace(DENIED, scans=50), STOP), "stopped_by": KEY},
        ["action failed 1 scan failed (api_unauthorized", "action denied 50 scans"],
    ),
    ({"stopped_by": KEY}, ["action failed The run stopped (api_unauthorized): Authentication required. Fix: "]),
    ({"expired": MANY}, ["warning token_expired 3 access tokens expired, 1 of them newly (anna, ben and 1 more)"]),
    (stale("anna", "ben"), ["action stale 2 of 100 accounts: posts not refreshed within 1 d 12 h; the oldest is"]),
    ({"undecided": [ANNA]}, ["action removals_undecided no missing items of 1 account were marked as removed"]),
    ({"recent": [{}], "gaps": [ANNA]}, ["warning gap 1 scan ended early and left a gap, which the next scan"]),
    ({"quarantine": REJECTED}, ["warning quarantine 12 records in quarantine: no id. Fix: `gramhouse quar"]),
    ({"new_fields": fields(*"abcdef")}, ["information new_fields 6 new fields: a (VARCHAR), b (VARCHAR), c ("]),
]


def hostile() -> RunReport:
    """A report in which every text from outside is hostile."""
    return report(
        {
            "expired": tokens(*HOSTILE),
            "renewed": tokens(*HOSTILE),
            "new_fields": fields(*HOSTILE),
            "retyped_fields": fields(*HOSTILE),
            "quarantine": [{"reason": text, "records": 1} for text in HOSTILE],
            **stale(*HOSTILE),
        },
        kind="backfill",
        selection=HOSTILE[2],
        reason=HOSTILE[3],
        state=RunState.PARTIAL,
        outcomes=Counter({OutcomeKind.FAILED: 40}),
        failure_groups=tuple(
            failure(kind, text, detail=text, examples=(example(text, "posts", text),), usernames=(text,))
            for text in HOSTILE
            for kind in (OutcomeKind.FAILED, OutcomeKind.DEFERRED)
        ),
        warnings=(Finding("accounts_missing", Severity.ACTION, " ".join(HOSTILE), " ".join(HOSTILE), count=30),),
    )


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_the_findings_of_a_report(changes: dict[str, Any], expected: list[str]) -> None:
    data = {name: changes[name] for name in changes if name in NO_DATA}
    found = list_findings(report(data, **{name: changes[name] for name in changes if name not in NO_DATA}))
    for each, begin in zip(found, expected, strict=True):
        assert f"{each.severity} {each.code} {each.sentence(2)}".startswith(begin)


def _trouble(asked: Asked) -> Action | None:
    if asked.is_posts(1) or asked.is_posts(2):
        return refuse("api_forbidden")
    return refuse("rate_limited", retry_after=7200) if asked.is_posts(3) else None


def _printed(answer: Answer) -> str:
    with redirect_stdout(StringIO()) as printed:
        answer.show(as_json=False)
    return printed.getvalue()


async def test_every_output_says_the_same_about_groups_of_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary, its JSON, Prefect's message, page and event, the status and the HTML report."""
    monkeypatch.chdir(tmp_path)
    service = ListedApi(accounts=4, expired=frozenset({4}), fault=_trouble)
    run = await synced(tmp_path, service)
    denied, deferred = run.failure_groups
    cause = (denied.outcome, denied.error_code, denied.scans, denied.detail, denied.usernames)
    text = "This credential is not authorized for the request."
    assert cause == (OutcomeKind.DENIED, "api_forbidden", 2, text, ["user_1", "user_2"])
    traces = {n: asked.correlation_id for asked in service.requests for n in (1, 2) if asked.is_posts(n)}
    assert denied.examples == [
        {"ig_username": f"user_{n}", "surface": "posts", "correlation_id": traces[n], "account_id": uuid(n)}
        for n in (1, 2)
    ]
    assert (deferred.outcome, deferred.usernames) == (OutcomeKind.DEFERRED, ["user_3"])
    assert deferred.resume_after is not None
    assert timedelta(hours=2) <= deferred.resume_after - START < timedelta(hours=3)
    found = list_findings(run)
    assert [each.code for each in found] == ["denied", "deferred", "token_expired"]
    assert [each["text"] for each in to_document(run)["findings"]] == [each.text for each in found]
    assert to_message(run).startswith(plain(found[0].sentence(), 500))
    [event, *_] = list_events(run)
    assert event["payload"]["findings"][0]["text"] == plain(found[0].text, 500)
    page = write_page(tmp_path / "analytics.duckdb", tmp_path / "report.html").html
    settings = load(snapshot="analytics.duckdb", warehouse=Path("warehouse.duckdb"))
    answer = status.answer(await asyncio.to_thread(status.read_status, settings, START))
    shown, now = _printed(Answer(None, describe_report(run))), _printed(answer)
    assert answer.code == 3
    for each in found:
        for output in (shown, page, now, to_markdown(run), to_message(run)):
            assert each.text in output
            assert all(name in output for name in each.accounts)


def test_external_values_on_a_page_are_text() -> None:
    page = to_markdown(hostile())
    blocks = MarkdownIt("commonmark", {"html": True}).parse(page)
    parts = [part for block in blocks for part in (block, *(block.children or ()))]
    assert {part.type for part in parts} & {"link_open", "image", "html_block", "html_inline", "fence"} == set()
    outside = "".join(part.content for part in parts if part.type == "text")
    for harm in ("evil", "script", "whoami", "channel", "everyone", "mermaid", "://", "www."):
        assert harm not in outside
    spans = [part.content for part in parts if part.type == "code_inline"]
    assert sum("<script>alert(1)</script>" in span for span in spans) >= 6
    assert all(char.isprintable() for char in page.replace("\n", "").replace("\N{NO-BREAK SPACE}", ""))
    heads = [line.lstrip("# ") for line in page.splitlines() if line.startswith("#")]
    assert heads == ["Partial", "Action required", "Warnings", "Information"]


def test_events_are_small_and_name_what_they_are_about() -> None:
    found = {"expired": tokens(*(f"user_{n}" for n in range(60))), "new_fields": fields("/mood")}
    run, token, drift = list_events(report(found))
    assert (token["event"], token["resource"]["gramhouse.newly_expired"]) == ("gramhouse.tokens", "yes")
    assert "user_19 and 40 more)." in token["payload"]["sentence"]
    listed = (token["payload"]["findings"][0], run["payload"]["findings"][0])
    assert [len(each["accounts"]) for each in listed] == [50, 50]
    assert (drift["event"], drift["payload"]["sentence"]) == ("gramhouse.drift", "1 new field: /mood (VARCHAR).")


def test_a_run_that_is_retried_raises_no_alarm_yet() -> None:
    data = {"expired": tokens("anna"), **stale("ben")}
    failed = report(data, state=RunState.FAILED, failure_groups=(failure(OutcomeKind.FAILED, "timeout"),))
    events = list_events(failed, "Retry 1 of 3 in 5 min (timeout)")
    assert [each["event"] for each in events] == ["gramhouse.retry", "gramhouse.tokens"]
    assert events[0]["payload"]["sentence"].startswith("Retry 1 of 3 in 5 min (timeout). 1 scan failed (timeout")
    of_the_last = [f"gramhouse.{name}" for name in ("run.failed", "tokens", "stale")]
    assert [each["event"] for each in list_events(failed)] == of_the_last


def test_external_values_contain_no_mentions_links_or_templates() -> None:
    for message in list_events(hostile()):
        written = json.dumps(message, ensure_ascii=False)
        texts = json.loads(written, object_pairs_hook=lambda pairs: [value for _, value in pairs])
        output = json.dumps(texts, ensure_ascii=False).replace("[", "").replace("]", "")
        assert not any(sign in output for sign in ("<", ">", "{", "}", "@", "`", "|", "*", "~", "://"))
        assert output.isprintable()
    assert [code(text) for text in ("anna", "a|`b`", " \n ", "x" * 200)] == [
        "`anna`", "`a¦'b'`", "` `", f"`{'x' * 79}…`"
    ]  # fmt: skip
    assert plain("<@U1> [a](https://b.example)") == "«(at)U1» (a)(https: //b.example)"
    assert all(len(plain(text)) < 120 for text in HOSTILE)


def _names(rows: Sequence[Record], **where: object) -> list[str]:
    return [row["ig_username"] for row in rows if row.items() >= where.items()]


async def test_what_is_new_since_the_last_run_is_in_the_report_of_each_day(tmp_path: Path) -> None:
    def having(**fields: object) -> Callable[[Records], Records]:
        return lambda items: [item | fields for item in items]

    calm = having(level="high", mood="calm")
    service, reports = ListedApi(accounts=4), list[RunReport]()
    for expired, change in (({1}, having(level=1)), ({1, 3}, calm), ({1, 4}, calm), ({1, 4}, calm)):
        service.expired, service.change_posts = expired, change
        reports.append(await synced(tmp_path, service, page_size=50))
        service.clock.days(1)
    # Tokens expire, stay so, and recover.
    assert [len(report.data["expired"]) for report in reports] == [1, 2, 2, 2]
    found = reports[3].data
    assert _names(found["expired"], is_new=True) == _names(found["renewed"]) == []
    assert _names(found["expired"]) == ["user_4", "user_1"]
    # The report of the third day's run does not contain later changes.
    found = reports[2].data
    assert (_names(found["expired"], is_new=True), _names(found["expired"], is_new=False)) == (["user_4"], ["user_1"])
    [recovered] = found["renewed"]
    assert (recovered["ig_username"], recovered["since"]) == ("user_3", START + timedelta(days=2))
    assert found["expired"][0]["media_as_of"] == START + timedelta(days=1)
    # An interrupted run reports nothing: the run that resumes it does.
    resumed = [report.run_id for report in reversed(reports[:3])]
    found = read_data(reports[2].snapshot, resumed, now=reports[2].started_at)
    assert _names(found["expired"]) == _names(found["expired"], is_new=True) == ["user_4", "user_1"]
    # Fields are new once, and so are types.
    second, third = reports[1].data, reports[2].data
    assert second["new_fields"] == [{"resource": "media", "path": "/mood", "type": "VARCHAR"}]
    assert [change["path"] for change in second["retyped_fields"]] == ["/level"]
    assert third["new_fields"] == third["retyped_fields"] == []


# Run, hour of its start, state, and the run that it resumes. The findings of f are not reported: g resumes it.
RUNS = """VALUES ('a', 1, 'complete', NULL), ('b', 2, 'interrupted', NULL), ('c', 3, 'partial', NULL),
    ('d', 4, 'interrupted', NULL), ('e', 5, 'running', NULL), ('f', 6, 'complete', NULL), ('g', 7, 'running', 'f')"""


@pytest.mark.parametrize(
    ("runs", "hour"),
    [
        pytest.param(["c", "b"], 2, id="c resumes b"),
        pytest.param(["c"], 2, id="no other run has reported the findings of b"),
        pytest.param(["e"], 4, id="nor those of d"),
        pytest.param(["e", "d"], 4, id="the run before d has reported its own"),
        pytest.param(["g"], 4, id="a run that another one resumes has not"),
    ],
)
def test_what_was_not_reported_is_reported_by_the_next_run(runs: list[str], hour: int) -> None:
    with duckdb.connect() as db:
        db.execute(f"""SET VARIABLE runs = {runs}; CREATE TABLE runs AS
            SELECT hour AS seq, run_id, 'sync' AS kind, to_timestamp(3600 * hour) AS started_at, state, resumes
            FROM ({RUNS}) AS t(run_id, hour, state, resumes) WHERE run_id <= getvariable('runs')[1]""")
        for name in ("reported", "begun"):
            db.execute(statements("flows.reporting.run_report")[name])
        assert db.execute("SELECT epoch(getvariable('begun')) / 3600").fetchone() == (hour,)
