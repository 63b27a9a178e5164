"""The Markdown artifact of a run: its contents, and that external text is never interpreted as markup."""

from markdown_it import MarkdownIt
from markdown_it.token import Token as Part

from connectors.warehouse.merge.run_counts import MergeStats, RunCounts
from flows.reporting.for_prefect import markdown
from models.runs import OutcomeKind, RunState
from tests.clocks import START
from tests.flows.reports import failure, hostile, report, stale, tokens


def _parts(text: str) -> list[Part]:
    """Parse a page as GitHub's Markdown with HTML allowed."""
    blocks = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    return [part for block in blocks for part in (block, *(block.children or ()))]


def _sections(text: str) -> list[str]:
    return [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]


def test_a_run_without_problems_has_no_list_of_actions() -> None:
    page = markdown(report())
    assert page.startswith(
        "## Complete: nothing needs attention\n\nsync 2026-03-01 02:15 UTC: 100 accounts listed; 300 pages,"
        " 12,000 records landed; media: 40 new, 7 changed; scans: 100 complete; took 42 min.\n\n### This run\n\n| "
    )
    assert _sections(page) == ["Complete: nothing needs attention", "This run"]


def test_findings_come_first_by_severity_with_their_fix() -> None:
    page = markdown(
        report(
            {
                "outcomes": [
                    {"surface": "", "outcome": "complete", "scans": 1},
                    {"surface": "posts", "outcome": "denied", "scans": 3},
                    {"surface": "posts", "outcome": "deferred", "scans": 1},
                ],
                "expired": tokens("anna", "ben"),
                "renewed": tokens("carl"),
                **stale("anna", "ben"),
            },
            state=RunState.PARTIAL,
            failure_groups=(failure(OutcomeKind.DENIED, scans=5), failure(OutcomeKind.DEFERRED, "rate_limited")),
        )
    )
    assert _sections(page)[:4] == ["Partial", "Action required", "Warnings", "Information"]
    needs, rest = page.split("### Warnings")
    waits, rest = rest.split("### Information")
    assert "- `5 scans denied (api_forbidden, correlation id TRACE): No`: `anna`\n  - **Fix:** `grant the key" in needs
    assert "- `2 access tokens newly expired`: `anna`, `ben`\n  - **Fix:** `the owner" in needs
    assert "- `2 of 100 accounts: posts not refreshed within 1 d 12 h" in needs
    assert "1 scan deferred (rate_limited" in waits
    assert "**Fix:**" not in waits
    assert "`carl`" in rest
    assert "| account catalogue | 1 | 0 | 0 |" in page
    assert "| posts | 100 | 2 | 0 | 3 | 2026-03-01 02:15 |" in page


def test_a_long_list_is_truncated_with_the_number_of_omitted_items() -> None:
    page = markdown(report({"expired": tokens(*(f"user_{n}" for n in range(99_000)))}))
    assert page.count("`user_") == 20
    assert "and 98,980 more" in page
    assert len(page) < 4_000


def test_the_page_shows_resumed_runs_and_the_reason_of_a_backfill() -> None:
    landed = MergeStats(added=1000, changed=3)
    resumed = RunCounts("run-0", "sync", RunState.INTERRUPTED, START, 30, 1200, 0, landed)
    page = markdown(report(kind="backfill", selected="anna: posts", reason="they asked", resumed=(resumed,)))
    counted = "- sync 2026-03-01 02:15 UTC (interrupted): 30 pages, 1,200 records landed; media: 1,000 new, 3 changed"
    assert f"What they landed is counted for them, not for this run:\n\n{counted}\n" in page
    assert "Scanned: `anna: posts`, because `they asked`\n\n|" in page


def test_external_values_are_shown_as_text() -> None:
    page = markdown(hostile())
    parts = _parts(page)
    assert {part.type for part in parts} & {"link_open", "image", "html_block", "html_inline", "fence"} == set()
    outside = "".join(part.content for part in parts if part.type == "text")
    for harm in ("evil", "script", "whoami", "channel", "everyone", "mermaid", "://", "www."):
        assert harm not in outside
    spans = [part.content for part in parts if part.type == "code_inline"]
    assert sum("<script>alert(1)</script>" in span for span in spans) >= 6
    assert all(char.isprintable() for char in page.replace("\n", "").replace("\N{NO-BREAK SPACE}", ""))


def test_external_values_do_not_break_tables() -> None:
    page = markdown(hostile())
    assert _sections(page) == [
        "Partial",
        "Action required",
        "Warnings",
        "Information",
        "This run",
        "Freshness",
    ]
    tables = [block for block in page.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 2
    for table in tables:
        widths = {line.count("|") for line in table.splitlines()}
        assert len(widths) == 1
