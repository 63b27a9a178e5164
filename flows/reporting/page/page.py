"""The page as a whole: its head with a content security policy that forbids scripts, and its sections."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from importlib.resources import files

from connectors.warehouse.snapshot.reader import Snapshot
from flows.reporting.page.attention import attention, causes
from flows.reporting.page.engagement import cadence, engagement
from flows.reporting.page.freshness import freshness, share
from flows.reporting.page.html import Html, element
from flows.reporting.page.posts import growth, hours, standard
from flows.reporting.page.reader import Reader, Scope, stamp
from flows.reporting.page.removals import removals, stories
from flows.reporting.page.runs import runs
from flows.reporting.page.svg import patterns
from flows.reporting.words import count

MARK = "<!doctype html>\n<!-- gramhouse report -->\n"
"""The beginning of every report. A file that begins with it is an earlier report and may be replaced."""

_TOTALS = """
SELECT
    (SELECT count(*) FROM accounts WHERE removed_at IS NULL AND {only}) AS accounts,
    count(*) FILTER (surface = 'posts') AS posts, count(*) FILTER (surface = 'stories') AS stories
FROM media WHERE removed_at IS NULL AND surface IN {surfaces} AND {only}
"""


@dataclass(frozen=True, slots=True)
class Report:
    """A finished page, the time of its snapshot, and the number of things on it that need action."""

    html: str
    published_at: datetime
    attention: int


@dataclass(frozen=True, slots=True)
class _Section:
    key: str
    title: str
    make: Callable[[Reader], Html]
    query: str | None
    is_of_posts: bool = False
    is_of_stories: bool = False


_OPERATOR = (
    _Section("attention", "Action required", lambda reader: attention(reader)[0], "FROM expired_accounts"),
    _Section(
        "causes",
        "Failures by cause",
        causes,
        "FROM run_outcomes WHERE outcome NOT IN ('complete', 'recent', 'skipped')",
    ),
    _Section("freshness", "Freshness", freshness, "FROM freshness ORDER BY complete_at"),
    _Section("runs", "The last 30 runs", runs, "FROM runs ORDER BY seq DESC"),
)
_ANALYST = (
    _Section("engagement", "Engagement", engagement, "FROM engagement_by_day ORDER BY day DESC", is_of_posts=True),
    _Section("growth", "Growth of recent posts", growth, "FROM post_growth", is_of_posts=True),
    _Section("top", "Top posts", standard, "FROM post_performance ORDER BY relative_likes DESC", is_of_posts=True),
    _Section("hours", "Best hours", hours, "FROM best_hour ORDER BY relative_likes DESC", is_of_posts=True),
    _Section("cadence", "Posting cadence", cadence, "FROM posting_cadence ORDER BY posts_28d DESC", is_of_posts=True),
    _Section("removed", "What was removed", removals, "FROM media WHERE removal = 'removed' ORDER BY removed_at DESC"),
    _Section("stories", "Stories", stories, "FROM stories_by_day ORDER BY day DESC", is_of_stories=True),
)


def _chosen(reader: Reader) -> Iterator[tuple[str, tuple[_Section, ...]]]:
    parts = {"operator": ("For the operator", _OPERATOR), "analyst": ("For the analyst", _ANALYST)}
    for audience, (title, sections) in parts.items():
        if reader.scope.audience in (audience, "both"):
            yield (
                title,
                tuple(
                    section
                    for section in sections
                    if (reader.has("posts") or not section.is_of_posts)
                    and (reader.has("stories") or not section.is_of_stories)
                ),
            )


def _tile(number: str, what: str, *, target: str, style: str | None = None) -> Html:
    return element(
        "a", element("b", number), element("span", what), href=f"#{target}", class_=f"tile {style or ''}".strip()
    )


def _tiles(reader: Reader, things: int) -> Html:
    totals = reader.one(_TOTALS)
    fresh, scans = share(reader)
    is_operator = reader.scope.audience != "analyst"
    items = [f"{totals['posts']:,} posts"] if reader.has("posts") else []
    items += [f"{totals['stories']:,} stories"] if reader.has("stories") else []
    tiles = [
        _tile(f"{totals['accounts']:,}", "accounts", target="top-of-page"),
        _tile(f"{totals['posts'] + totals['stories']:,}", ", ".join(items), target="top-of-page"),
        _tile(
            f"{100 * fresh // scans}%" if scans else "none",
            "of scans fresh",
            target="freshness" if is_operator else "top-of-page",
            style="good" if fresh == scans else "bad",
        ),
    ]
    if is_operator:
        what = "needs action" if things == 1 else "need action"
        tiles.append(_tile(f"{things:,}", what, target="attention", style="bad" if things else "good"))
    return element("nav", tiles, class_="tiles", aria_label="Summary")


def _filters(reader: Reader) -> tuple[Html | None, str]:
    """Return the form that filters rows, and the style rules that implement it without scripts."""
    if len(reader.filtered) < 2:
        return None, ""
    names = sorted(reader.filtered.items(), key=lambda pair: pair[0])
    everyone = element("option", "all accounts", value="", selected="")
    options = [element("option", name, value=key) for name, key in names]
    rules = [
        f"body:has(#account option[value={key}]:checked) [data-a]:not([data-a={key}]){{display:none}}"
        for _, key in names
    ]
    parts = [
        element("label", "Rows of ", element("select", everyone, options, id="account", autocomplete="off")),
    ]
    if len(reader.scope.surfaces) > 1:
        surfaces = [element("option", each, value=each) for each in reader.scope.surfaces]
        both = element("option", "posts and stories", value="", selected="")
        parts.append(element("label", "of ", element("select", both, surfaces, id="surface", autocomplete="off")))
        rules += [
            f"body:has(#surface option[value={each}]:checked) [data-s]:not([data-s={each}]){{display:none}}"
            for each in reader.scope.surfaces
        ]
    command = element("code", "gramhouse report --account NAME")
    note = element("small", "Charts and totals cover all accounts; ", command, " creates a report for one account.")
    return element("div", parts, note, class_="filters"), "".join(rules)


def _covered(reader: Reader) -> str:
    scope = reader.scope
    accounts = f"Only {count(len(scope.accounts), 'chosen account')}. " if scope.accounts else ""
    surfaces = " and ".join(scope.surfaces).capitalize()
    return f"{accounts}{surfaces}; charts by day cover {count(scope.weeks, 'week')}, in UTC."


def _section(section: _Section, content: Html) -> Html:
    query = element("code", f'gramhouse query "{section.query}"')
    ask = element("p", "Full list: ", query, class_="ask")
    return element("section", element("h2", section.title), content, ask, id=section.key)


def make(snapshot: Snapshot, scope: Scope, *, release: str) -> Report:
    """Return the page for an open snapshot. It depends only on the snapshot, the scope and the release.

    Raises QueryError if this version cannot read the snapshot, and SettingsError if it lacks an account of the scope.
    """
    reader = Reader(snapshot, scope)
    things = attention(reader)[1]
    contents, parts = [], []
    for title, sections in _chosen(reader):
        links = [element("li", element("a", section.title, href=f"#{section.key}")) for section in sections]
        contents.append(element("div", element("span", title), element("ul", links)))
        parts.append(
            element(
                "div", element("h1", title), [_section(each, each.make(reader)) for each in sections], class_="part"
            )
        )
    filters, rules = _filters(reader)
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8") + rules
    policy = b64encode(sha256(style.encode()).digest()).decode()
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"default-src 'none'; style-src 'sha256-{policy}'; base-uri 'none'; form-action 'none'",
        ),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="robots", content="noindex"),
        element("title", f"gramhouse report, {reader.at:%Y-%m-%d %H:%M} UTC"),
        element("style", Html(style)),
    )
    made = ["Made from the snapshot of ", stamp(reader.at), f" UTC by gramhouse {release}. ", _covered(reader)]
    body = element(
        "body",
        patterns(),
        element("header", element("p", "gramhouse report", class_="name"), element("p", made), id="top-of-page"),
        element(
            "main",
            _tiles(reader, things),
            element("nav", contents, class_="contents", aria_label="Contents"),
            filters,
            parts,
        ),
        element(
            "footer",
            element(
                "p",
                "Ages are relative to the time of the snapshot. View comments define each number: ",
                element("code", "gramhouse describe engagement_by_day"),
                ". This page makes no requests and runs no scripts.",
            ),
        ),
    )
    html = f"{MARK}{element('html', head, body, lang='en')}\n"
    return Report(html, reader.at, things)
