"""The report: one HTML page from Jinja2 templates, with a content security policy that forbids scripts."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import cycle

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from connectors.source.errors import hint_for
from connectors.warehouse.queries.outcomes import group_failures
from connectors.warehouse.queries.reader import Snapshot
from connectors.warehouse.storage.statements import statements
from flows.reporting.findings import Severity, list_findings
from flows.reporting.page import charts
from flows.reporting.reader import WEEKS, Reader, Record
from flows.reporting.run_report import NO_DATA, last_report
from flows.reporting.words import count, run_title, several, span
from models.feeds import SURFACES
from models.text import one_line

MARK = "<!doctype html>\n<!-- gramhouse report -->\n"
"""The beginning of every report. A file that begins with it is an earlier report and may be replaced."""

# Accounts whose median post has fewer likes are excluded, because multiples of small numbers mean little. The other
# limit is the number of posts per account. Neither applies if the report is for selected accounts.
_FEW_LIKES = 10
_POSTS_PER_ACCOUNT = 3

# The styles of the feeds in the chart of removals.
_REMOVED_STYLES = ("trouble", "waiting", "c2", "c1", "c3", "c5", "c4")

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """A finished page, the time of its snapshot, and the number of findings on it that require action."""

    html: str
    published_at: datetime
    attention: int


_CAUSES = "FROM run_outcomes WHERE outcome NOT IN ('complete', 'recent', 'skipped')"

# The sections of each part: the template `key`.html.j2, the title, and the query for the full list; without a query,
# `gramhouse status` lists all.
_PARTS = {
    "For the operator": {
        "attention": ("Action required", ""),
        "causes": ("Failures by cause", _CAUSES),
        "freshness": ("Freshness", "FROM freshness ORDER BY complete_at"),
        "runs": ("The last 30 runs", "FROM runs ORDER BY seq DESC"),
    },
    "For the analyst": {
        "engagement": ("Engagement", "FROM engagement_by_day ORDER BY day DESC"),
        "growth": ("Growth of recent posts", "FROM post_growth"),
        "top": ("Top posts", "FROM post_performance ORDER BY relative_likes DESC"),
        "hours": ("Best hours", "FROM best_hour ORDER BY relative_likes DESC"),
        "cadence": ("Posting cadence", "FROM posting_cadence ORDER BY posts_28d DESC"),
        "removed": ("What was removed", "FROM media WHERE removal = 'removed' ORDER BY removed_at DESC"),
        "stories": ("Stories", "FROM stories_by_day ORDER BY day DESC"),
    },
}

# The sections that are about one surface.
_ABOUT = dict.fromkeys(("engagement", "growth", "top", "hours", "cadence"), "posts") | {"stories": "stories"}

# The queries of page.sql that prepare temporary tables for the others.
_TABLES = ("items", "days", "gained", "ripe", "recent_posts", "recent_likes", "cadence")


def foreign(text: str | None, limit: int = 80) -> Markup:
    """Return text from outside as one line, truncated, and isolated from the text direction around it."""
    return Markup("<bdi>{}</bdi>").format(one_line(text, limit)) if text else Markup()


def link(text: str, address: str | None) -> str:
    """Return a link that sends no referrer; only the text if `address` is not a web address."""
    if address is None or not address.startswith(("https://", "http://")) or not address.isprintable():
        return text
    return Markup('<a href="{}" rel="noopener noreferrer" target="_blank">{}</a>').format(address, text)


def stamp(moment: datetime | None) -> Markup:
    """Return a time to the minute, UTC; empty for None."""
    if moment is None:
        return Markup()
    return Markup('<time datetime="{}">{}</time>').format(f"{moment:%Y-%m-%dT%H:%MZ}", f"{moment:%Y-%m-%d %H:%M}")


def _runs(rows: Sequence[Record]) -> list[Record]:
    """Return runs as rows of charts, the oldest first."""
    runs = list[Record]()
    for run in reversed(rows):
        title = one_line(run_title(run["kind"], run["selection"]), 60)
        name = f"{title}, {run['started_at']:%Y-%m-%d %H:%M} UTC: {run['state']}"
        runs.append({**run, **run["outcomes"], "title": title, "name": name})
    return runs


def make_page(
    snapshot: Snapshot,
    accounts: Sequence[str] = (),
    *,
    surfaces: Sequence[str] = SURFACES,
    weeks: int = WEEKS,
    release: str,
) -> Page:
    """Return the page for an open snapshot, these accounts (empty: all) and surfaces, with `weeks` on its time axes.

    It depends only on these and the release. Raises SnapshotUnreadable and SettingsError as Reader does.
    """
    surfaces = sorted(surfaces)
    reader = Reader(snapshot, accounts, surfaces=surfaces)
    midnight = reader.at.replace(hour=0, minute=0, second=0, microsecond=0)
    few_likes, posts_per_account = (0, 20) if accounts else (_FEW_LIKES, _POSTS_PER_ACCOUNT)
    reader.set(since=midnight - timedelta(days=7 * weeks - 1), few_likes=few_likes, posts_per_account=posts_per_account)
    report = last_report(reader)
    data, found = (report.data, list_findings(report)) if report else (NO_DATA, [])
    actions = sum(finding.severity is Severity.ACTION for finding in found)

    def query(name: str) -> list[Record]:
        return reader.records(_SQL[name])

    for table in _TABLES:
        query(table)

    environment = Environment(
        autoescape=True,
        loader=PackageLoader("flows.reporting.page"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "count": count,
        "digest": lambda text: b64encode(sha256(text.encode()).digest()).decode(),
        "foreign": foreign,
        "hint": hint_for,
        "link": link,
        "several": several,
        "n": lambda number, none="": none if number is None else f"{number:,}",
        "span": span,
        "stamp": stamp,
    }
    environment.globals |= {"charts": charts, "query": query, "surfaces": surfaces}
    html = environment.get_template("page.html.j2").render(
        accounts=query("accounts")[0]["accounts"],
        actions=actions,
        causes=reader.records(f"{group_failures(_SQL['outcomes'])} LIMIT 20"),
        chosen=len(accounts),
        chosen_surfaces=surfaces if len(surfaces) < len(SURFACES) else (),
        expired=data["expired"],
        few_likes=_FEW_LIKES,
        findings=found,
        fresh=sum(each["fresh"] for each in data["freshness"]),
        last_runs=_runs(data["last_runs"]),
        parts={
            part: {key: section for key, section in sections.items() if _ABOUT.get(key, surfaces[0]) in surfaces}
            for part, sections in _PARTS.items()
        },
        posts_per_account=_POSTS_PER_ACCOUNT,
        published=reader.published,
        release=release,
        removals=[
            {**day, **{each: 0 if each in day["synced"] else None for each in surfaces}, **day["by_surface"]}
            for day in query("removed")
        ],
        removed="FROM media WHERE removal = 'removed'",
        removed_styles=dict(zip(surfaces, cycle(_REMOVED_STYLES), strict=False)),
        scans=sum(each["accounts"] for each in data["freshness"]),
        stale=sum(each["stale"] for each in data["freshness"]),
        totals={each["surface"]: each["present"] for each in query("totals")},
        weeks=weeks,
    )
    return Page(f"{MARK}{html}\n", reader.at, actions)
