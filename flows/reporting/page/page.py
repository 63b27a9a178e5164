"""The report: one HTML page from Jinja2 templates, with a content security policy that forbids scripts."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import cycle, groupby

from humanize import naturaldelta
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from connectors.source.errors import hint_for
from connectors.warehouse.runs.failure_groups import grouped
from connectors.warehouse.snapshot.reader import Snapshot
from connectors.warehouse.storage.statements import statements
from flows.reporting.findings import Severity, findings
from flows.reporting.page import charts
from flows.reporting.reader import Audience, Reader, Record, Scope
from flows.reporting.run_report import NO_DATA, last_report
from flows.reporting.words import count, run_title, several, span
from models.feeds import FEEDS
from models.text import one_line

MARK = "<!doctype html>\n<!-- gramhouse report -->\n"
"""The beginning of every report. A file that begins with it is an earlier report and may be replaced."""

# The maximum number of accounts in the page's filter; a longer list would be useless.
_FILTERED = 300

# Accounts whose median post has fewer likes are excluded, because multiples of small numbers mean little. The other
# limit is the number of posts per account. Neither applies if the report is for selected accounts.
_FEW_LIKES = 10
_POSTS_PER_ACCOUNT = 3

# The styles of the feeds in the chart of removals.
_REMOVED_STYLES = ("trouble", "waiting", "c2", "c1", "c3", "c5", "c4")

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """A finished page, the time of its snapshot, and the number of findings on it that require action."""

    html: str
    published_at: datetime
    attention: int


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its template is `key`.html.j2, and `full` is the query for its full list.

    `tables` are the queries of page.sql that prepare temporary tables for it. It is omitted without the `surface` that
    the view of its full list is about.
    """

    audience: Audience
    key: str
    title: str
    full: str
    surface: str | None = None
    tables: tuple[str, ...] = ()


_CAUSES = "FROM run_outcomes WHERE outcome NOT IN ('complete', 'recent', 'skipped')"
_REMOVED = " UNION ALL BY NAME ".join(
    f"FROM {table} WHERE removal = 'removed'" for table in dict.fromkeys(feed.table for feed in FEEDS.values())
)
_RECENT = ("ripe", "recent_posts", "recent_likes")

SECTIONS = (
    Section("operator", "attention", "Action required", "FROM expired_accounts"),
    Section("operator", "causes", "Failures by cause", _CAUSES),
    Section("operator", "freshness", "Freshness", "FROM freshness ORDER BY complete_at"),
    Section("operator", "runs", "The last 30 runs", "FROM runs ORDER BY seq DESC"),
    Section("analyst", "engagement", "Engagement", "FROM engagement_by_day ORDER BY day DESC", "posts", ("gained",)),
    Section("analyst", "growth", "Growth of recent posts", "FROM post_growth", "posts", _RECENT),
    Section("analyst", "top", "Top posts", "FROM post_performance ORDER BY relative_likes DESC", "posts"),
    Section("analyst", "hours", "Best hours", "FROM best_hour ORDER BY relative_likes DESC", "posts"),
    Section(
        "analyst", "cadence", "Posting cadence", "FROM posting_cadence ORDER BY posts_28d DESC", "posts", ("cadence",)
    ),
    Section("analyst", "removed", "What was removed", f"{_REMOVED} ORDER BY removed_at DESC"),
    Section("analyst", "stories", "Stories", "FROM stories_by_day ORDER BY day DESC", "stories"),
)


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
    """Return runs as rows of charts, the oldest first. The first one of a day has a label."""
    runs = list[Record]()
    day = ""
    for run in reversed(rows):
        title = one_line(run_title(run["kind"], run["selection"]), 60)
        name = f"{title}, {run['started_at']:%Y-%m-%d %H:%M} UTC: {run['state']}"
        label = "" if day == f"{run['started_at']:%-d %b}" else f"{run['started_at']:%-d %b}"
        day = label or day
        is_incomplete = run["state"] != "complete"
        about = {"title": title, "name": name, "label": label, "is_incomplete": is_incomplete}
        runs.append({**run, **run["outcomes"], **about})
    return runs


def _removals(days: Sequence[Record], surfaces: Sequence[str]) -> list[Record]:
    """Return the removals of days as rows of charts."""
    return [{**day, **dict.fromkeys(surfaces, 0 if day["is_seen"] else None), **day["by_surface"]} for day in days]


def _curves(posts: Sequence[Record]) -> list[charts.Curve]:
    """Return the growth of posts, the best last so that it is drawn on top."""
    return [
        charts.Curve(
            f"{post['rank']}. {one_line(post['ig_username'], 30)}: {post['times']:.1f} times the usual",
            post["style"],
            # The last count applies until the post was last seen.
            [*post["points"], (max(post["seen"], post["points"][-1][0]), post["points"][-1][1])],
        )
        for post in reversed(posts)
        if post["points"]
    ]


def make(snapshot: Snapshot, scope: Scope, *, release: str) -> Report:
    """Return the page for an open snapshot. It depends only on the snapshot, the scope and the release.

    Raises QueryError and SettingsError as Reader does.
    """
    reader = Reader(snapshot, scope)
    midnight = reader.at.replace(hour=0, minute=0, second=0, microsecond=0)
    few_likes, posts_per_account = (0, 20) if scope.accounts else (_FEW_LIKES, _POSTS_PER_ACCOUNT)
    reader.set(
        since=midnight - timedelta(days=7 * scope.weeks - 1), few_likes=few_likes, posts_per_account=posts_per_account
    )
    items = snapshot.items("account_id, surface, media_id, published_at, removed_at, removal")
    reader.records(f"CREATE TEMP VIEW items AS {items}")
    report = last_report(reader)
    data, found = (report.data, findings(report)) if report else (NO_DATA, [])
    actions = sum(finding.severity is Severity.ACTION for finding in found)
    sections = [
        section
        for section in SECTIONS
        if scope.audience in (section.audience, "both") and section.surface in (None, *scope.surfaces)
    ]

    def query(name: str) -> list[Record]:
        return reader.records(_SQL[name])

    for table in ("days", *(table for section in sections for table in section.tables)):
        query(table)

    # The accounts that have rows, each with the key by which the page's filter selects them.
    names: dict[str, str] = {}

    def select(row: Record) -> Markup:
        """Return the attributes by which the page's filters select a row that is about an account or a surface."""
        name, surface = row.get("ig_username"), row.get("surface")
        given = Markup()
        if name and (name in names or len(names) < _FILTERED):
            given += Markup(' data-a="{}"').format(names.setdefault(name, f"a{len(names)}"))
        return given + Markup(' data-s="{}"').format(surface) if surface else given

    def age(moment: datetime | None) -> str:
        if moment is None:
            return "never"
        return Markup("{} <small>{} ago</small>").format(
            stamp(moment), naturaldelta(max(reader.at - moment, timedelta()), months=False)
        )

    environment = Environment(
        autoescape=True,
        loader=PackageLoader("flows.reporting.page"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "age": age,
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
    environment.globals |= {"charts": charts, "query": query, "scope": scope, "select": select}
    titles = {"operator": "For the operator", "analyst": "For the analyst"}
    html = environment.get_template("page.html.j2").render(
        accounts=query("accounts")[0]["accounts"],
        actions=actions,
        causes=lambda: reader.records(f"{grouped(_SQL['outcomes'])} LIMIT 20"),
        expired=data["expired"],
        few_likes=_FEW_LIKES,
        findings=found,
        growth_curves=_curves,
        last_runs=_runs(data["last_runs"]),
        names=names,
        parts={titles[audience]: [*some] for audience, some in groupby(sections, lambda each: each.audience)},
        posts_per_account=_POSTS_PER_ACCOUNT,
        published=reader.published,
        release=release,
        removals=lambda: _removals(query("removed"), scope.surfaces),
        removed=_REMOVED,
        removed_styles=dict(zip(scope.surfaces, cycle(_REMOVED_STYLES), strict=False)),
        scans=sum(each["accounts"] for each in data["freshness"]),
        stale=sum(each["stale"] for each in data["freshness"]),
        totals={each["surface"]: each["present"] for each in query("totals")},
    )
    return Report(f"{MARK}{html}\n", reader.at, actions)
