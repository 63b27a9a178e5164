"""The section about the age of the last complete scan of each account's posts and stories."""

from flows.reporting.page.html import Html, Row, Table, element, join
from flows.reporting.page.reader import Reader, account
from flows.reporting.page.svg import bar
from flows.reporting.words import count, span

# Upper bounds in hours, with the labels of the ages.
_AGES = (
    (6, "up to 6 h"),
    (12, "6 to 12 h"),
    (24, "12 to 24 h"),
    (36, "24 to 36 h"),
    (72, "36 h to 3 days"),
    (168, "3 to 7 days"),
    (None, "more than 7 days"),
)
_NEVER = "never completed"

_HISTOGRAM = """
SELECT surface, hours, count(*) AS scans, count(*) FILTER (is_stale) AS stale,
    count(*) FILTER (stale_at IS NULL) AS expired
FROM (
    SELECT *, list_filter([6, 12, 24, 36, 72, 168, 1000000],
        lambda h: (epoch({at}) - epoch(complete_at)) / 3600 < h)[1] AS hours
    FROM fresh
) GROUP BY surface, hours
"""

_OLDEST = """
SELECT ig_username, surface, complete_at, outcome, is_stale, stale_at IS NULL AS is_expired FROM fresh
ORDER BY complete_at NULLS FIRST, ig_username, surface LIMIT 10
"""

_SHARE = """
SELECT count(stale_at) AS scans, count(*) FILTER (stale_at IS NOT NULL AND NOT is_stale) AS fresh FROM fresh
"""


def share(reader: Reader) -> tuple[int, int]:
    """Return the number of fresh surfaces of accounts, and of all; accounts with expired tokens do not count."""
    found = reader.one(_SHARE)
    return found["fresh"], found["scans"]


def _surface(reader: Reader, surface: str) -> Html:
    found = {each["hours"]: each for each in reader.records(_HISTOGRAM) if each["surface"] == surface}
    most = max((each["scans"] for each in found.values()), default=0)
    bins = [(hours or 1_000_000, name) for hours, name in _AGES]
    rows = []
    for hours, name in [*bins, (None, _NEVER)]:
        each = found.get(hours)
        if each is None and hours is None:
            continue
        scans, stale, expired = (each["scans"], each["stale"], each["expired"]) if each else (0, 0, 0)
        text = ", ".join(
            filter(None, (f"{stale:,} stale" if stale else "", f"{expired:,} token expired" if expired else ""))
        )
        style = "trouble" if stale else "waiting" if expired and expired == scans else "c2"
        rows.append(Row([name, scans, join([bar(scans / most if most else 0, style), " ", element("small", text)])]))
    table = Table(f"Last complete scan of {surface}, by age", (f"age: {surface}", "accounts", ""), rows, frozenset({1}))
    return element("div", table.html(), data_s=surface)


def freshness(reader: Reader) -> Html:
    """Return the ages of the last complete scans by surface, and the ten oldest."""
    fresh, scans = share(reader)
    limit = span(reader.published["stale_after"])
    lead = element(
        "p",
        f"{fresh:,} of {count(scans, 'scan')} (an account's posts, or its stories) are fresh: complete within {limit}"
        " of this snapshot. Accounts whose token expired cannot be scanned and are counted apart.",
    )
    rows = [
        Row(
            [
                account(each["ig_username"]),
                each["surface"],
                reader.age(each["complete_at"]),
                "token expired" if each["is_expired"] else "stale" if each["is_stale"] else "fresh",
                (each["outcome"] or "none yet").replace("_", " "),
            ],
            reader.key(each["ig_username"]),
            each["surface"],
        )
        for each in reader.records(_OLDEST)
    ]
    heads = ("account", "surface", "complete (UTC)", "state", "last outcome")
    oldest = Table("The ten oldest", heads, rows).html()
    surfaces = [_surface(reader, surface) for surface in reader.scope.surfaces]
    return join([lead, element("div", surfaces, class_="pair"), element("h3", "The ten oldest"), oldest])
