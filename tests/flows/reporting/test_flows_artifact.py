"""The Markdown artifact of a run: its contents, and that external text is never interpreted as markup."""

from dataclasses import replace
from datetime import timedelta

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token as Part

from flows.reporting.artifact import bar, markdown
from flows.reporting.headline import headline, numbers, run_title, verdict
from flows.reporting.summary import Drift, Field, OutcomeCount, Tokens, Truncated
from flows.reporting.words import fix_for
from models.runs import OutcomeKind, RunState, RunWarning
from tests.flows.summaries import RUN, START, failure, fresh, hostile, run, summary, tokens


def _parts(text: str) -> list[Part]:
    """Parse a page as GitHub's Markdown with HTML allowed."""
    blocks = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    return [part for block in blocks for part in (block, *(block.children or ()))]


def _sections(text: str) -> list[str]:
    return [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]


def test_a_run_without_problems_has_no_list_of_actions() -> None:
    page = markdown(summary())
    assert page.startswith("## Complete: nothing needs attention\n\nThe sync 2026-03-01 02:15 UTC took 42 min and saw")
    assert _sections(page) == ["Complete: nothing needs attention", "This run", "The last 1 run"]


def test_a_run_without_a_single_scan_has_no_table_of_them() -> None:
    assert "| scans |" not in markdown(summary(outcomes=()))
    assert "| scans |" in markdown(summary())


def test_problems_that_need_a_person_come_first_with_their_fix() -> None:
    page = markdown(
        summary(
            run=run(state=RunState.PARTIAL, quarantined=2),
            outcomes=(
                OutcomeCount("", OutcomeKind.COMPLETE, 1),
                OutcomeCount("posts", OutcomeKind.DENIED, 3),
                OutcomeCount("posts", OutcomeKind.DEFERRED, 1),
            ),
            tokens=Tokens(tokens("anna"), tokens("ben"), tokens("carl")),
            failure_groups=Truncated(
                22,
                (
                    failure(OutcomeKind.DENIED, scans=5),
                    failure(OutcomeKind.DEFERRED, "rate_limited", resume_after=START),
                ),
            ),
            freshness=(fresh(overdue=4), fresh("stories")),
        )
    )
    assert page.startswith(
        "## Partial: 3 scans denied, 1 scan deferred. Needs attention: 1 token newly expired,"
        " posts of 4 accounts stale, 2 records in quarantine\n"
    )
    needs, rest = page.split("### Will recover by itself")
    waits, _ = rest.split("### This run")
    assert "| `anna` | 2026-03-01 02:15 | never scanned |" in needs
    assert "**5 scans denied**, `api_forbidden`: `No.`" in needs
    assert "Fix: grant the key access" in needs
    assert "posts of `anna`, correlation id `TRACE`; and 4 more" in needs
    assert "and 20 more groups of failures" in needs
    assert "**2 records rejected**: see `gramhouse quarantine`." in needs
    assert "**4 accounts: posts stale**, no completed scan within 1 d 12 h." in needs
    assert "stories stale" not in page
    assert "**1 scan deferred**, `rate_limited`: `No.` Deferred until 2026-03-01 02:15 UTC." in waits
    assert "The wait is kept" not in waits
    assert waits.index("`ben`") < waits.index("`carl`")
    assert "| account catalogue | 1 | 0 | 0 |" in page
    assert "| posts | 100 | 0 | 0 | 3 | 2026-03-01 02:15 |" in page


def test_warnings_are_listed_under_action_required_with_their_fix() -> None:
    message = summary(
        warnings=(
            RunWarning("accounts_missing", 30, "30 accounts are missing.", "Check the key.", makes_partial=True),
            RunWarning("accounts_removed", 1, "1 account removed."),
        )
    )
    page = markdown(message)
    assert "`30 accounts are missing.` **Fix:** `Check the key.`\n\n`1 account removed.`" in page
    assert page.index("Action required") < page.index("30 accounts are missing") < page.index("The last")
    assert verdict(message) == "Complete: 30 accounts missing"


def test_a_long_list_is_truncated_with_the_number_of_omitted_items() -> None:
    page = markdown(summary(tokens=Tokens(newly=tokens(*(f"user_{n}" for n in range(50)), total=99_000))))
    assert "**99,000 accounts: token newly expired.**" in page
    assert page.count("`user_") == 20
    assert "and 98,980 more" in page
    assert len(page) < 4_000


def test_the_page_shows_new_fields_resumed_runs_and_the_reason_of_a_backfill() -> None:
    new = Truncated(1, (Field("media", "/mood", "VARCHAR"),))
    retyped = Truncated(1, (Field("media_children", "/w", ""),))
    chosen = run(kind="backfill", selection="anna: posts", reason="they asked")
    resumed = run(state=RunState.INTERRUPTED, pages=30, items=1200, added=1000, changed=3)
    page = markdown(summary(run=chosen, resumed=(resumed,), drift=Drift(new, retyped)))
    assert "**1 field new**" in page
    assert "| media | `/mood` | `VARCHAR` |" in page
    assert "**1 field with a changed type**" in page
    assert "| media children | `/w` | `?` |" in page
    counted = "- sync 2026-03-01 02:15 UTC (interrupted): 30 pages, 1,200 records; media: 1,000 new, 3 changed"
    assert f"Counted for the earlier runs that landed them, not for this run:\n\n{counted}" in page
    assert "Scanned: `anna: posts`, because `they asked`" in page


def test_the_last_runs_are_drawn_to_one_scale() -> None:
    runs = (
        run(items=12_000, seconds=100.0),
        run(items=6_000, seconds=None, state=RunState.INTERRUPTED, started_at=START - timedelta(days=1)),
        run(items=0, seconds=50.0, selection="stories"),
    )
    rows = markdown(summary(last=runs)).replace("\N{NO-BREAK SPACE}", " ").splitlines()[-3:]
    assert rows == [
        "| 03-01 02:15 | sync | complete | █████ 1 min 40 s | █████ 12,000 | 40 | 7 |",
        "| 02-28 02:15 | sync | **interrupted** |  | ██▌ 6,000 | 40 | 7 |",
        "| 03-01 02:15 | `stories` | complete | ██▌ 50 s |  0 | 40 | 7 |",
    ]


@pytest.mark.parametrize(
    ("value", "most", "drawn"),
    [(0, 0, ""), (0, 10, ""), (0.001, 10, "▏"), (5, 10, "██▌"), (10, 10, "█████"), (9.99, 10, "█████")],
)
def test_bars(value: float, most: float, drawn: str) -> None:
    assert bar(value, most) == drawn


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        ("api_forbidden", "Fix: grant the key"),
        ("cursor_loop", "Fix: contact the service's support"),
        ("http_401", "Fix: check the API key"),
        ("http_", ""),
        ("http_abc", ""),
        ("unheard_of", ""),
        ("", ""),
    ],
)
def test_each_known_error_code_has_a_fix(code: str, begins: str) -> None:
    assert fix_for(code).startswith(begins)
    assert bool(fix_for(code)) == bool(begins)


def test_a_headline_names_why_a_run_is_partial_and_nothing_else_as_the_reason() -> None:
    outcomes = (OutcomeCount("posts", OutcomeKind.COMPLETE, 19), OutcomeCount("posts", OutcomeKind.DEFERRED, 102))
    partial = summary(run=run(state=RunState.PARTIAL), outcomes=outcomes)
    assert verdict(partial) == "Partial: 102 scans deferred"
    message = verdict(replace(partial, tokens=Tokens(newly=tokens("anna")), freshness=(fresh(overdue=4),)))
    assert message == "Partial: 102 scans deferred. Needs attention: 1 token newly expired, posts of 4 accounts stale"
    light = RunWarning("values_lost", 2, "Two.", "Look.")
    serious = RunWarning("accounts_missing", 30, "Thirty.", "Look.", makes_partial=True)
    missing = summary(run=run(state=RunState.PARTIAL), warnings=(light, serious))
    assert verdict(missing) == "Partial: 30 accounts missing"


def test_other_headlines() -> None:
    assert verdict(summary()) == "Complete: nothing needs attention"
    assert verdict(summary(tokens=Tokens(newly=tokens("anna")))) == "Complete. Needs attention: 1 token newly expired"
    failed = run(state=RunState.FAILED, error_code="api_unauthorized")
    lost = (OutcomeCount("", OutcomeKind.FAILED, 1),)
    assert verdict(summary(run=failed, outcomes=lost)) == "Failed: 1 scan failed (api_unauthorized)"
    assert verdict(summary(run=failed, outcomes=())) == "Failed: api_unauthorized"


def test_headlines() -> None:
    assert headline(summary()) == f"{verdict(summary())}. {numbers(summary())}"
    assert numbers(summary()).endswith("saw 100 accounts, landed 300 pages; media: 40 new, 7 changed.")
    counted = summary(run=run(requests=310))
    assert "landed 300 pages; 310 requests; media:" in numbers(counted)
    still = summary(run=run(added=0, changed=0, seconds=None))
    assert numbers(still) == "The sync 2026-03-01 02:15 UTC saw 100 accounts, landed 300 pages; media: nothing changed."
    assert run_title(run(selection="stories")) == "sync of stories 2026-03-01 02:15"
    assert run_title(run(kind="backfill", selection="anna: posts")) == "backfill 2026-03-01 02:15"
    assert run_title(RUN) == "sync 2026-03-01 02:15"


def test_external_values_are_shown_as_text() -> None:
    page = markdown(hostile())
    parts = _parts(page)
    assert {part.type for part in parts} & {"link_open", "image", "html_block", "html_inline", "fence"} == set()
    outside = "".join(part.content for part in parts if part.type == "text")
    for harm in ("evil", "script", "whoami", "channel", "everyone", "mermaid", "://", "www."):
        assert harm not in outside
    spans = [part.content for part in parts if part.type == "code_inline"]
    assert spans.count("<script>alert(1)</script>") >= 6
    assert all(char.isprintable() for char in page.replace("\n", "").replace("\N{NO-BREAK SPACE}", ""))


def test_external_values_do_not_break_tables() -> None:
    heads = _sections(markdown(hostile()))
    assert heads == [
        "Partial: 40 scans failed, 30 accounts missing. Needs attention: 16 tokens newly expired",
        "Action required",
        "Will recover by itself",
        "This run",
        "New or changed fields",
        "The last 16 runs",
    ]
    tables = [block for block in markdown(hostile()).split("\n\n") if block.startswith("| ")]
    assert len(tables) == 7
    for table in tables:
        widths = {line.count("|") for line in table.splitlines()}
        assert len(widths) == 1
