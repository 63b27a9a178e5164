"""The report: one HTML page from Jinja2 templates, with a content security policy that forbids scripts."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from connectors.warehouse.snapshot.reader import Snapshot
from flows.reporting.page import charts
from flows.reporting.page.reader import FEW_LIKES, POSTS_PER_ACCOUNT, Audience, Reader, Record, Scope
from flows.reporting.words import count, fix_for, long_cooldowns, run_title, span
from models.partition import Surface
from models.text import one_line

MARK = "<!doctype html>\n<!-- gramhouse report -->\n"
"""The beginning of every report. A file that begins with it is an earlier report and may be replaced."""

# The maximum number of accounts in the page's filter; a longer list would be useless.
_FILTERED = 300

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Report:
    """A finished page, the time of its snapshot, and the number of things on it that need action."""

    html: str
    published_at: datetime
    attention: int


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its template is `key`.html.j2, and `full` is the query for its full list.

    `tables` are the queries of reader.sql that prepare temporary tables for it. It is omitted without its `surface`.
    """

    audience: Audience
    key: str
    title: str
    full: str
    surface: Surface | None = None
    tables: tuple[str, ...] = ()


_CAUSES = "FROM run_outcomes WHERE outcome NOT IN ('complete', 'recent', 'skipped')"
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
    Section("analyst", "removed", "What was removed", "FROM media WHERE removal = 'removed' ORDER BY removed_at DESC"),
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


def roughly(length: timedelta) -> str:
    """Return a duration in one unit, easy to compare in a column: 40 min, 6 h, 12 days."""
    length = max(length, timedelta())
    if length < _HOUR:
        return f"{length.seconds // 60} min"
    return f"{length // _HOUR} h" if length < 2 * _DAY else f"{length // _DAY:,} days"


def _total(rows: Sequence[Record]) -> int:
    return rows[0]["total"] if rows else 0


def _runs(reader: Reader) -> list[Record]:
    """Return the last runs as rows of charts, oldest first."""
    runs = []
    for run in reader.query("runs"):
        title = one_line(run_title(run["kind"], run["selection"]), 60)
        name = f"{title}, {run['started_at']:%Y-%m-%d %H:%M} UTC: {run['state']}"
        runs.append({**run, **run["outcomes"], "title": title, "name": name})
    return runs


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


def _others(reader: Reader) -> Iterator[tuple[str, str]]:
    """Yield what else needs a person, each with what to do about it."""
    [share] = reader.query("share")
    if share["stale"]:
        what = f"{count(share['stale'], 'scan')} of {count(share['stale_accounts'], 'account')}"
        yield f"Stale: {what}, no completed scan within {span(reader.published['stale_after'])}.", ""
    if cooldowns := reader.query("cooldowns"):
        names, until = [each["ig_username"] for each in cooldowns], max(each["until"] for each in cooldowns)
        yield f"Blocked: {long_cooldowns(names, until)}", ""
    for each in reader.query("warnings"):
        yield f"Warning of the last run: {each['detail']}", each["hint"] or ""
    for each in reader.query("quarantine"):
        trace = f", correlation id {each['correlation_id']}" if each["correlation_id"] else ""
        last = f"last seen {each['last_at']:%Y-%m-%d %H:%M}{trace}. See `gramhouse quarantine`."
        yield f"{count(each['records'], 'record')} in quarantine: {one_line(each['reason'])}; {last}", ""
    for each in reader.query("retyped"):
        since = f"{each['last_type_change_at']:%Y-%m-%d %H:%M}"
        yield f"A field changed type: {each['path']} is {each['type']} since {since}.", ""


def make(snapshot: Snapshot, scope: Scope, *, release: str) -> Report:
    """Return the page for an open snapshot. It depends only on the snapshot, the scope and the release.

    Raises QueryError and SettingsError as Reader does.
    """
    reader = Reader(snapshot, scope)
    sections = [
        section
        for section in SECTIONS
        if scope.audience in (section.audience, "both") and section.surface in (None, *scope.surfaces)
    ]
    for section in sections:
        for table in section.tables:
            reader.query(table)
    expired, incomplete, others = reader.query("expired"), reader.query("incomplete"), [*_others(reader)]
    deferred = [each for each in incomplete if each["outcome"] == "deferred"]
    lost = [each for each in incomplete if each["outcome"] != "deferred"]
    attention = _total(expired) + _total(lost) + len(others)

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
        return Markup("{} <small>{} ago</small>").format(stamp(moment), roughly(reader.at - moment))

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
        "fix": fix_for,
        "foreign": foreign,
        "link": link,
        "n": lambda number, none="": none if number is None else f"{number:,}",
        "span": span,
        "stamp": stamp,
        "total": _total,
    }
    environment.globals |= {"charts": charts, "query": reader.query, "scope": scope, "select": select}
    titles = {"operator": "For the operator", "analyst": "For the analyst"}
    values = {
        "attention": attention,
        "causes": reader.causes,
        "deferred": deferred,
        "expired": expired,
        "few_likes": FEW_LIKES,
        "growth_curves": _curves,
        "last_runs": lambda: _runs(reader),
        "lost": lost,
        "names": names,
        "others": others,
        "parts": {titles[audience]: [*some] for audience, some in groupby(sections, lambda each: each.audience)},
        "posts_per_account": POSTS_PER_ACCOUNT,
        "published": reader.published,
        "release": release,
        "share": reader.query("share")[0],
        "totals": reader.query("totals")[0],
    }
    html = environment.get_template("page.html.j2").render(values)
    return Report(f"{MARK}{html}\n", reader.at, attention)
