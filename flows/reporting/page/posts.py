"""The sections about the growth of recent posts, top posts relative to their account, and best hours."""

from collections import defaultdict
from collections.abc import Sequence

from flows.reporting.page.html import Html, Row, Table, element, figure, foreign, join, link
from flows.reporting.page.reader import Reader, Record, account, stamp
from flows.reporting.page.svg import Cell, Curve, Kind, heat, legend, lines
from flows.reporting.words import count
from models.text import one_line

_DAYS = 28
_CURVES = ("c1", "c3", "c2", "c5", "c4")
# The usual growth is computed from this many posts, selected by a hash so that a snapshot always gives the same page.
_SAMPLE = 3000
_FEW = 5
_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_RIPE = "SELECT * FROM post_performance WHERE relative_likes IS NOT NULL AND {only}"

# Accounts whose median post has fewer likes are excluded, because multiples of small numbers mean little. The other
# limit is the number of posts per account. Neither applies if the report is for selected accounts.
_LEAST = 10
_OF_ONE = 3

# Only the posts that are drawn: the twenty best and a sample. Growth is not computed for any others.
_RECENT = f"""
WITH usual AS (SELECT account_id, any_value(median_likes) AS usual FROM ripe GROUP BY account_id)
SELECT m.account_id, m.media_id, m.ig_username, m.caption, m.permalink, m.published_at, m.last_seen_at, m.like_count,
    u.usual, m.like_count / u.usual AS times,
    row_number() OVER (ORDER BY m.like_count / u.usual DESC, m.account_id, m.media_id) AS rank,
    row_number() OVER (ORDER BY hash(m.account_id, m.media_id), m.account_id, m.media_id) <= {_SAMPLE} AS is_sample
FROM media AS m JOIN usual AS u ON u.account_id = m.account_id
WHERE m.surface = 'posts' AND m.published_at >= {{at}} - INTERVAL {_DAYS} DAYS AND m.published_at <= {{at}}
  AND m.like_count IS NOT NULL AND u.usual >= {{least}}
QUALIFY rank <= 20 OR is_sample
"""  # noqa: S608 - constants of this module

_COUNTS = f"""
SELECT r.account_id, r.media_id, r.rank, r.is_sample, r.published_at, r.last_seen_at, c.value,
    c.value / r.usual AS times, greatest((epoch(c.observed_at) - epoch(r.published_at)) / 86400, 0) AS age
FROM media_metrics AS c JOIN recent_posts AS r ON r.account_id = c.account_id AND r.media_id = c.media_id
WHERE c.surface = 'posts' AND c.metric = 'like_count' AND c.value IS NOT NULL
  AND c.observed_at >= {{at}} - INTERVAL {_DAYS + 1} DAYS
"""  # noqa: S608

# The same values as in the view post_growth.
_TOP = """
SELECT r.*, g.value_24h, g.value_7d FROM recent_posts AS r
LEFT JOIN (
    SELECT account_id, media_id,
        arg_max(value, age) FILTER (age <= 1 AND last_seen_at >= published_at + INTERVAL 24 HOURS) AS value_24h,
        arg_max(value, age) FILTER (age <= 7 AND last_seen_at >= published_at + INTERVAL 168 HOURS) AS value_7d
    FROM recent_likes GROUP BY account_id, media_id
) AS g ON g.account_id = r.account_id AND g.media_id = r.media_id
WHERE r.rank <= 20 ORDER BY r.rank
"""

_POINTS = f"SELECT rank, age, times FROM recent_likes WHERE rank <= 20 AND age <= {_DAYS} ORDER BY rank, age"  # noqa: S608

# Each post's likes at every full day of its age, until it was last seen.
_BAND = f"""
WITH days AS (SELECT unnest(range(1, {_DAYS + 1})) AS day),
posts AS (SELECT DISTINCT account_id, media_id, published_at, last_seen_at FROM recent_likes WHERE is_sample),
asked AS (
    SELECT account_id, media_id, day::DOUBLE AS day FROM posts, days
    WHERE last_seen_at >= published_at + to_days(day::INTEGER)
)
SELECT a.day, quantile_cont(l.times, [0.25, 0.5, 0.75]) AS quartiles
FROM asked AS a ASOF JOIN recent_likes AS l
  ON l.account_id = a.account_id AND l.media_id = a.media_id AND a.day >= l.age
GROUP BY a.day HAVING count(*) >= {_FEW} ORDER BY a.day
"""  # noqa: S608

_STANDARD = """
SELECT r.ig_username, r.published_at, r.like_count, r.median_likes, r.relative_likes, m.caption, m.permalink,
    m.removed_at
FROM (
    FROM ripe WHERE median_likes >= {least}
    QUALIFY row_number() OVER (PARTITION BY account_id ORDER BY relative_likes DESC, media_id) <= {most}
    ORDER BY relative_likes DESC, account_id, media_id LIMIT 20
) AS r
JOIN media AS m ON m.surface = 'posts' AND m.account_id = r.account_id AND m.media_id = r.media_id
ORDER BY r.relative_likes DESC, r.account_id, r.media_id
"""

# The same as the view best_hour, but only for the selected accounts.
_HOURS = """
SELECT isodow(published_at AT TIME ZONE 'UTC') AS weekday, hour(published_at AT TIME ZONE 'UTC') AS hour,
    count(*) AS posts, count(DISTINCT account_id) AS accounts, median(relative_likes) AS relative_likes
FROM ripe GROUP BY ALL
"""

# Upper bounds of relative likes with the style of a cell, and the names of the styles in the legend.
_HEAT = ((0.67, "h0"), (0.87, "h1"), (1.15, "h2"), (1.5, "h3"), (float("inf"), "h4"))
_HEAT_NAMES = ("below 0.67 times the usual", "to 0.87", "about usual", "from 1.15", "1.5 times and more")


def _bounded(query: str, reader: Reader) -> str:
    least, most = (0, 20) if reader.scope.accounts else (_LEAST, _OF_ONE)
    return query.replace("{least}", str(least)).replace("{most}", str(most))


def _curves(top: Sequence[Record], points: Sequence[Record]) -> tuple[list[Curve], list[Kind]]:
    """Return the curves, with the best last so that it is drawn on top, and the legend of their styles."""
    known: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for each in points:
        known[each["rank"]].append((each["age"], each["times"]))
    curves: list[Curve] = []
    kinds: list[Kind] = []
    for post in reversed(top):
        some = known[post["rank"]]
        if not some:
            continue
        # The last count applies until the post was last seen.
        seen = (post["last_seen_at"] - post["published_at"]).total_seconds() / 86400
        some.append((min(max(seen, some[-1][0]), _DAYS), some[-1][1]))
        index = post["rank"] - 1
        style = _CURVES[index] if index < len(_CURVES) else "c0 thin"
        name = f"{index + 1}. {one_line(post['ig_username'], 30)}: {post['times']:.1f} times the usual"
        curves.append(Curve(name, style, some))
        if index < len(_CURVES):
            kinds.insert(0, Kind(name, style))
    return curves, kinds


def growth(reader: Reader) -> Html:
    """Return likes by days since publication: five posts in colour, fifteen more in grey, and the usual range."""
    reader.prepare("ripe", _RIPE)
    reader.prepare("recent_posts", _bounded(_RECENT, reader))
    reader.prepare("recent_likes", _COUNTS)
    top = reader.records(_TOP)
    if not top:
        return element(
            "p", f"No posts in the last {_DAYS} days from accounts whose median post has at least {_LEAST} likes."
        )
    curves, kinds = _curves(top, reader.records(_POINTS))
    usual = reader.records(_BAND)
    if usual:
        curves.append(Curve("median of recent posts", "usual", [(each["day"], each["quartiles"][1]) for each in usual]))
        kinds.append(Kind("half of all recent posts, with their median", "band"))
    drawing = lines(
        f"Likes of posts of the last {_DAYS} days, in times the account's median post, by days since publication",
        curves,
        x_most=_DAYS,
        x_labels=("0", "7 days", "14 days", "21 days", "28 days"),
        band=[(each["day"], each["quartiles"][0], each["quartiles"][2]) for each in usual],
    )
    rows = [
        Row(
            [
                f"{post['rank']}.",
                account(post["ig_username"]),
                link(post["permalink"], foreign(post["caption"]) or "(no caption)"),
                stamp(post["published_at"]),
                f"{post['times']:.1f}",
                post["like_count"],
                post["value_24h"],
                post["value_7d"],
            ],
            reader.key(post["ig_username"]),
        )
        for post in top
    ]
    heads = ("", "account", "post", "published (UTC)", "times the usual", "likes", "after 24 h", "after 7 days")
    table = Table(f"Best posts of the last {_DAYS} days", heads, rows, frozenset({4, 5, 6, 7}))
    lead = (
        f"Likes, in times the likes of the account's median post, by days since publication. Posts of the last {_DAYS}"
        " days: the best five in colour, fifteen more in grey. A count is constant until a scan sees a new one."
    )
    return join([figure("How recent posts grew", lead, drawing, legend=legend(kinds)), table.html()])


def standard(reader: Reader) -> Html:
    """Return the posts with the most likes relative to their account's median."""
    reader.prepare("ripe", _RIPE)
    rows = [
        Row(
            [
                account(each["ig_username"]),
                link(each["permalink"], foreign(each["caption"]) or "(no caption)"),
                stamp(each["published_at"]),
                f"{each['relative_likes']:,.1f}",
                each["like_count"],
                f"{each['median_likes']:,.0f}",
                "removed" if each["removed_at"] else "",
            ],
            reader.key(each["ig_username"]),
        )
        for each in reader.records(_bounded(_STANDARD, reader))
    ]
    if not rows:
        return element(
            "p", f"No posts older than seven days from accounts whose median post has at least {_LEAST} likes."
        )
    heads = ("account", "post", "published (UTC)", "times the usual", "likes", "account's median", "")
    table = Table("Posts with the most likes relative to their account", heads, rows, frozenset({3, 4, 5}))
    lead = "Likes divided by the account's median post, so that accounts of different sizes are comparable."
    if not reader.scope.accounts:
        lead += (
            f" At most {_OF_ONE} posts per account; accounts whose median post has fewer than {_LEAST} likes are"
            " excluded."
        )
    return join([element("p", lead), table.html()])


def _cell(found: Record | None, weekday: str, hour: int) -> Cell | None:
    if found is None:
        return None
    times = found["relative_likes"]
    style = next(style for limit, style in _HEAT if times < limit)
    posts, accounts = count(found["posts"], "post"), count(found["accounts"], "account")
    return Cell(
        f"{weekday} {hour:02d}:00 UTC: {times:.2f} times the usual, {posts} of {accounts}", style, found["posts"] < _FEW
    )


def hours(reader: Reader) -> Html:
    """Return a heat map of the week: relative likes by the hour of publication."""
    reader.prepare("ripe", _RIPE)
    found = {(each["weekday"], each["hour"]): each for each in reader.records(_HOURS)}
    if not found:
        return element("p", "No posts older than seven days yet.")
    cells = [[_cell(found.get((day, hour)), name, hour) for hour in range(24)] for day, name in enumerate(_WEEK, 1)]
    names = [f"{hour:02d}" if not hour % 3 else "" for hour in range(24)]
    drawing = heat("Relative likes by hour of publication (UTC)", _WEEK, names, cells)
    best = sorted(
        found.values(), key=lambda each: (each["posts"] < _FEW, -each["relative_likes"], each["weekday"], each["hour"])
    )
    rows = [
        Row(
            [
                f"{_WEEK[each['weekday'] - 1]} {each['hour']:02d}:00",
                f"{each['relative_likes']:.2f}",
                each["posts"],
                each["accounts"],
            ]
        )
        for each in best
    ]
    heads = ("hour (UTC)", "times the usual", "posts", "accounts")
    table = Table(
        f"Hours of the week, best first; hours with fewer than {_FEW} posts last", heads, rows, frozenset({1, 2, 3})
    )
    lead = (
        f"Median of relative likes by hour of publication (UTC). Pale: fewer than {_FEW} posts;"
        " hatched: none. This shows a correlation, not a cause."
    )
    kinds = [Kind(name, f"cell {style}") for name, (_, style) in zip(_HEAT_NAMES, _HEAT, strict=True)]
    return figure("Best hours to post", lead, drawing, table, legend=legend(kinds))
