"""The sections about removed items by day, and about stories by their fate."""

from flows.reporting.page.html import Html, Row, Table, element, figure, foreign, join, rest
from flows.reporting.page.reader import Reader, account, day_label, stamp
from flows.reporting.page.svg import Kind, Slot, columns, legend

_REMOVED = """
SELECT (removed_at AT TIME ZONE 'UTC')::DATE AS day, surface, count(*) AS items FROM media
WHERE removed_at >= {since} AND removal = 'removed' AND surface IN {surfaces} AND {only} GROUP BY ALL
"""

_LAST = """
SELECT ig_username, surface, caption, published_at, last_seen_at, removed_at, like_count,
    count(*) OVER () AS total
FROM media WHERE removal = 'removed' AND surface IN {surfaces} AND {only}
ORDER BY removed_at DESC, account_id, media_id LIMIT 20
"""

_STORIES = """
SELECT day, sum(live) AS live, sum(expired) AS expired, sum(removed) AS removed, sum(unconfirmed) AS unconfirmed
FROM stories_by_day WHERE day >= ({since})::DATE AND {only} GROUP BY day
"""

_SURFACES = {"posts": "trouble", "stories": "waiting"}
_FATES = {"live": "c1", "expired": "c2", "unconfirmed": "waiting", "removed": "trouble"}


def removals(reader: Reader) -> Html:
    """Return the number of removed items by day, and the most recent ones."""
    counted = {(each["day"], each["surface"]): each["items"] for each in reader.records(_REMOVED)}
    kinds = [Kind(f"{surface} removed", _SURFACES[surface]) for surface in reader.scope.surfaces]
    observed = reader.observed() | {day for day, _ in counted}
    slots = [
        Slot(
            f"{day:%a %Y-%m-%d}",
            day_label(day, first=not index),
            [counted.get((day, surface), 0) for surface in reader.scope.surfaces] if day in observed else None,
        )
        for index, day in enumerate(reader.calendar)
    ]
    days = [
        Row([f"{day:%a %Y-%m-%d}", *(counted.get((day, surface), 0) for surface in reader.scope.surfaces)])
        for day in reversed(reader.calendar)
        if any((day, surface) in counted for surface in reader.scope.surfaces)
    ]
    table = Table("Removed by day, newest first", ("day (UTC)", *reader.scope.surfaces), days, frozenset({1, 2}))
    last = reader.records(_LAST)
    rows = [
        Row(
            [
                account(each["ig_username"]),
                each["surface"],
                foreign(each["caption"]) or "(no caption)",
                stamp(each["published_at"]) if each["published_at"] else "",
                stamp(each["last_seen_at"]),
                stamp(each["removed_at"]),
                each["like_count"],
            ],
            reader.key(each["ig_username"]),
            each["surface"],
        )
        for each in last
    ]
    query = "FROM media WHERE removal = 'removed'"
    heads = ("account", "surface", "caption", "published (UTC)", "last seen", "found removed", "likes")
    more = rest(last[0]["total"] if last else 0, len(rows), query)
    listed = Table("Most recently removed items", heads, rows, frozenset({6}), more)
    lead = "By the day of the first complete scan without them; hatched: no run that day. The items are kept."
    drawing = columns("Items found removed by day", kinds, slots, height=90)
    return join(
        [
            figure("Removed by day", lead, drawing, table if days else None, legend=legend(kinds)),
            [element("h3", "Last removed"), listed.html()] if rows else element("p", "Nothing was removed."),
        ]
    )


def stories(reader: Reader) -> Html:
    """Return the number of captured stories by day and fate."""
    counted = {each["day"]: each for each in reader.records(_STORIES)}
    kinds = [Kind(name, style) for name, style in _FATES.items()]
    values = {day: [int(counted[day][name]) if day in counted else 0 for name in _FATES] for day in reader.calendar}
    observed = reader.observed()
    slots = [
        Slot(
            f"{day:%a %Y-%m-%d}",
            day_label(day, first=not index),
            values[day] if day in counted or day in observed else None,
        )
        for index, day in enumerate(reader.calendar)
    ]
    rows = [Row([f"{day:%a %Y-%m-%d}", *values[day]]) for day in reversed(reader.calendar)]
    table = Table("Stories by day of publication, newest first", ("day (UTC)", *_FATES), rows, frozenset(range(1, 5)))
    lead = "By day of publication: live, expired after 24 hours, removed earlier, or not seen again."
    return figure("Stories", lead, columns("Stories by day", kinds, slots, height=110), table, legend=legend(kinds))
