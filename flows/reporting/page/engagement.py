"""Likes and comments gained by day, the accounts that gained most, and how often accounts post."""

from connectors.warehouse.storage.statements import statements
from flows.reporting.page.html import Child, Html, Row, Table, element, figure, join, rest
from flows.reporting.page.reader import Reader, account, day_label, stamp
from flows.reporting.page.svg import Kind, Slot, bar, columns, spark

_SQL = statements(__name__)

_BY_DAY = "SELECT day, sum(likes) AS likes, sum(comments) AS comments FROM gained GROUP BY day"

_POSTS = """
SELECT (published_at AT TIME ZONE 'UTC')::DATE AS day, count(*) AS posts FROM media
WHERE surface = 'posts' AND published_at >= {since} AND published_at <= {at} AND {only} GROUP BY day
"""

_GAINERS = """
SELECT a.ig_username, sum(g.likes) AS likes, coalesce(sum(g.comments), 0) AS comments,
    map_from_entries(list({'k': g.day, 'v': coalesce(g.likes, 0)})) AS days
FROM gained AS g JOIN accounts AS a USING (account_id)
GROUP BY a.account_id, a.ig_username HAVING sum(g.likes) > 0 ORDER BY likes DESC, a.ig_username LIMIT 10
"""

# The condition of stopped_posting in stale_accounts. That view itself depends on the reader's clock.
_CADENCE = """
SELECT *, posts >= 5 AND days_since_last_post > greatest(3 * median_days_between_posts, 7) AS is_silent
FROM posting_cadence WHERE {only}
"""

_BUSIEST = """
SELECT *, count(*) OVER () AS total FROM cadence
ORDER BY posts_28d DESC, last_post_at DESC NULLS LAST, ig_username LIMIT 20
"""

_SILENT = """
SELECT *, count(*) OVER () AS total FROM cadence WHERE is_silent
ORDER BY days_since_last_post DESC, ig_username LIMIT 10
"""


def engagement(reader: Reader) -> Html:
    """Return charts of gains and published posts by day, and the accounts that gained most."""
    reader.prepare("gained", _SQL["gained"])
    gained = {each["day"]: each for each in reader.records(_BY_DAY)}
    posts = {each["day"]: each["posts"] for each in reader.records(_POSTS)}
    if not gained:
        return element("p", "No data yet: gains appear after the second run.")
    observed = reader.observed()
    days = reader.calendar

    def slots(column: str) -> list[Slot]:
        return [
            Slot(
                f"{day:%a %Y-%m-%d}",
                day_label(day, first=not index),
                [float((gained.get(day) or {}).get(column) or 0)] if day in observed or day in gained else None,
            )
            for index, day in enumerate(days)
        ]

    published = [
        Slot(f"{day:%a %Y-%m-%d}", day_label(day, first=not index), [posts.get(day, 0)])
        for index, day in enumerate(days)
    ]
    rows = []
    for day in reversed(days):
        values: list[Child] = ["no run", "no run"]
        if day in observed or day in gained:
            found = gained.get(day) or {}
            values = [int(found.get(column) or 0) for column in ("likes", "comments")]
        rows.append(Row([f"{day:%a %Y-%m-%d}", *values, posts.get(day, 0)]))
    heads = ("day (UTC)", "likes gained", "comments gained", "posts published")
    table = Table("Engagement by day, newest first", heads, rows, frozenset({1, 2, 3}))
    lead = (
        "Counted on the day of the scan that saw it; a nightly scan sees mostly the day before. Hatched: no run that"
        " day, so no data; the next run's gain includes it."
    )
    return join(
        [
            figure("Likes gained by day", lead, columns("Likes gained by day", [Kind("likes", "c1")], slots("likes"))),
            element(
                "div",
                figure(
                    "Comments gained by day",
                    None,
                    columns("Comments gained by day", [Kind("comments", "c2")], slots("comments"), height=90),
                ),
                figure(
                    "Posts published by day",
                    None,
                    columns("Posts published by day", [Kind("posts", "c5")], published, height=90),
                ),
                class_="pair",
            ),
            element("details", element("summary", "Numbers"), table.html()),
            _gainers(reader),
        ]
    )


def _gainers(reader: Reader) -> Html | None:
    rows = []
    for each in reader.records(_GAINERS):
        by_day = [float(each["days"].get(day, 0)) for day in reader.calendar]
        name = account(each["ig_username"])
        line = spark("likes gained by day", by_day)
        rows.append(Row([name, int(each["likes"]), int(each["comments"]), line], reader.key(each["ig_username"])))
    if not rows:
        return None
    heads = ("account", "likes gained", "comments gained", "likes by day")
    table = Table(f"Accounts with the largest gain in {reader.days} days", heads, rows, frozenset({1, 2}))
    return join([element("h3", f"Largest gains in {reader.days} days"), table.html()])


def cadence(reader: Reader) -> Html:
    """Return how often accounts post, and which of them have stopped posting."""
    reader.prepare("cadence", _CADENCE)
    found = reader.records(_BUSIEST)
    most = max((each["posts_28d"] for each in found), default=0) or 1
    rows = [
        Row(
            [
                account(each["ig_username"]),
                each["posts_7d"],
                each["posts_28d"],
                bar(each["posts_28d"] / most, "c5"),
                each["posts_90d"],
                _days(each["median_days_between_posts"]),
                _days(each["days_since_last_post"]),
                "silent accounts" if each["is_silent"] else "",
            ],
            reader.key(each["ig_username"]),
        )
        for each in found
    ]
    heads = ("account", "7 days", "28 days", "", "90 days", "usual gap", "last post", "")
    more = rest(found[0]["total"] if found else 0, len(rows), "FROM posting_cadence ORDER BY posts_28d DESC")
    table = Table("Posts by account, most of the last 28 days first", heads, rows, frozenset({1, 2, 4, 5, 6}), more)
    silent = reader.records(_SILENT)
    fell = [
        Row(
            [
                account(each["ig_username"]),
                stamp(each["last_post_at"]),
                _days(each["days_since_last_post"]),
                _days(each["median_days_between_posts"]),
            ],
            reader.key(each["ig_username"]),
        )
        for each in silent
    ]
    quiet = Table(
        "Accounts silent for more than three times their usual gap and at least a week",
        ("account", "last post (UTC)", "ago", "usual gap"),
        fell,
        frozenset({2, 3}),
        rest(silent[0]["total"] if silent else 0, len(fell), "FROM stale_accounts"),
    )
    return join([table.html(), [element("h3", "Silent accounts"), quiet.html()] if fell else None])


def _days(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f} d"
