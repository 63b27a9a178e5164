"""The expected rows of the views, computed in plain Python from the snapshot's tables."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

Row = Mapping[str, Any]
World = Mapping[str, Sequence[Row]]
Answer = list[tuple[Any, ...]]

DAY = timedelta(days=1)


def _now(world: World) -> datetime:
    (published,) = world["published"]
    moment: datetime = published["snapshot_at"]
    return moment


def _names(world: World) -> dict[str, str]:
    return {row["account_id"]: row["ig_username"] for row in world["accounts"]}


def _listed(world: World) -> list[Row]:
    return [row for row in world["accounts"] if row["removed_at"] is None]


def _items(world: World, surface: str, account_id: str | None = None) -> list[Row]:
    return [row for row in world["media"] if row["surface"] == surface and account_id in (None, row["account_id"])]


def _scan(world: World, account_id: str, surface: str) -> Row:
    where = ("media", account_id, surface)
    return next(
        (row for row in world["completed_scans"] if (row["resource"], row["account_id"], row["surface"]) == where), {}
    )


def _scanned_at(world: World, account_id: str, surface: str) -> datetime | None:
    found = _scan(world, account_id, surface)
    return max((found[name] for name in ("complete_at", "recent_at") if found.get(name)), default=None)


def _counts(world: World, item: Row, metric: str) -> list[tuple[datetime, int | None]]:
    identity = (item["account_id"], item["surface"], item["media_id"], metric)
    return sorted(
        (row["observed_at"], row["value"])
        for row in world["media_metrics"]
        if (row["account_id"], row["surface"], row["media_id"], row["metric"]) == identity
    )


def _metrics(world: World) -> list[str]:
    return sorted({row["metric"] for row in world["media_metrics"]})


def stale_at(world: World, account: Row, surface: str) -> datetime | None:
    (published,) = world["published"]
    if account["status"] == "token_expired":
        return None
    since: datetime = _scanned_at(world, account["account_id"], surface) or account["first_seen_at"]
    return since + timedelta(seconds=published["stale_after"])


def _surfaces(world: World) -> set[str]:
    return {
        row["surface"]
        for table in ("completed_scans", "run_outcomes")
        for row in world[table]
        if row["resource"] == "media"
    }


_OF_SCANS = ("complete_at", "recent_at", "covered_from", "item_order")


def _is_of(row: Row, account_id: str, surface: str) -> bool:
    return (row["account_id"], row["surface"]) == (account_id, surface)


def _full_due_at(world: World, scan: Row) -> datetime | None:
    (published,) = world["published"]
    if scan.get("item_order") is None:
        return None
    due: datetime = scan["complete_at"] + timedelta(seconds=published["full_refresh_every"] * scan["full_share"])
    return due


def freshness(world: World) -> Answer:
    """Return the expected rows without columns that depend on the reader's clock."""
    tried = ("outcome", "error_code", "resume_after", "ended_at")
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(world["run_outcomes"], key=lambda row: row["ended_at"]):
        if row["resource"] == "media":
            last[row["account_id"], row["surface"]] = row
    return [
        (
            account["account_id"],
            account["ig_username"],
            surface,
            *(_scan(world, account["account_id"], surface).get(name) for name in _OF_SCANS),
            _full_due_at(world, _scan(world, account["account_id"], surface)),
            next((gap["since"] for gap in world["gaps"] if _is_of(gap, account["account_id"], surface)), None),
            *(last.get((account["account_id"], surface), {}).get(name) for name in tried),
            stale_at(world, account, surface),
            _scan(world, account["account_id"], surface).get("items_missing", 0),
            _scan(world, account["account_id"], surface).get("removals_undecided_since"),
        )
        for account in _listed(world)
        for surface in _surfaces(world)
    ]


def expired_accounts(world: World) -> Answer:
    answer: Answer = []
    for account in _listed(world):
        if account["status"] == "token_expired":
            scans = [_scanned_at(world, account["account_id"], surface) for surface in ("posts", "stories")]
            oldest = min((moment for moment in scans if moment), default=None)
            answer.append((account["account_id"], account["ig_username"], account["token_expired_since"], oldest))
    return answer


def posting_cadence(world: World) -> Answer:
    answer: Answer = []
    for account in _listed(world):
        posts = _items(world, "posts", account["account_id"])
        times = sorted(post["published_at"] for post in posts if post["published_at"])
        ages = [_now(world) - moment for moment in times]
        gaps = [(later - earlier) / DAY for earlier, later in pairwise(times)]
        within = {days: len([age for age in ages if age < days * DAY]) for days in (7, 28, 90)}
        answer.append(
            (
                account["account_id"],
                account["ig_username"],
                len(times),
                *within.values(),
                within[28] / 4,
                median(gaps[-20:]) if gaps else None,
                times[-1] if times else None,
                ages[-1] / DAY if ages else None,
                _scanned_at(world, account["account_id"], "posts"),
            )
        )
    return answer


def stale_accounts(world: World) -> Answer:
    answer: Answer = []
    accounts = {row["account_id"]: row for row in _listed(world)} if "posts" in _surfaces(world) else {}
    (published,) = world["published"]
    limit = timedelta(seconds=published["stale_after"])
    for account_id, name, posts, *_, gap, last_post_at, silent, scanned_at in posting_cadence(world):
        if account_id not in accounts:
            continue
        at = stale_at(world, accounts[account_id], "posts")
        reason = None
        if at is not None and at < _now(world):
            reason = "never_scanned" if scanned_at is None else "not_scanned"
        elif at is None and (scanned_at is None or _now(world) - scanned_at > limit):
            reason = "token_expired"
        elif posts >= 5 and silent > 7 and silent > 3 * gap:
            reason = "stopped_posting"
        if reason:
            answer.append((account_id, name, reason, scanned_at, last_post_at, silent, gap))
    return answer


def _gains(world: World, post: Row, metric: str) -> Iterator[tuple[datetime, int]]:
    before: int | None = None
    for moment, value in _counts(world, post, metric):
        if value is None:
            continue
        if before is not None:
            yield moment, value - before
        elif post["published_at"] and moment - post["published_at"] < timedelta(hours=48):
            yield moment, value
        before = value


def engagement_by_day(world: World) -> Answer:
    days: dict[tuple[str, object], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for post in _items(world, "posts"):
        if post["published_at"]:
            days[post["account_id"], post["published_at"].astimezone(UTC).date()]["post"].append(1)
        for metric in ("like_count", "comments_count"):
            for moment, gain in _gains(world, post, metric):
                days[post["account_id"], moment.astimezone(UTC).date()][metric].append(gain)
    names = _names(world)
    return [
        (
            account_id,
            names.get(account_id),
            day,
            sum(found["like_count"]) if found["like_count"] else None,
            sum(found["comments_count"]) if found["comments_count"] else None,
            len(found["post"]),
        )
        for (account_id, day), found in days.items()
    ]


def _count_after(post: Row, counts: Sequence[tuple[datetime, int | None]], hours: int) -> int | None:
    if post["published_at"] is None or post["last_seen_at"] < post["published_at"] + timedelta(hours=hours):
        return None
    count = None
    for moment, value in counts:
        if moment - post["published_at"] <= timedelta(hours=hours):
            count = value
    return count


def post_growth(world: World) -> Answer:
    answer: Answer = []
    for post in _items(world, "posts"):
        for metric in _metrics(world):
            counts = _counts(world, post, metric)
            message = [(moment, value) for moment, value in counts if value is not None]
            if not message:
                continue
            (first_at, first), (latest_at, latest) = message[0], message[-1]
            vanished_at = counts[-1][0] if counts[-1][1] is None else None
            days = ((vanished_at or post["last_seen_at"]) - first_at) / DAY
            answer.append(
                (
                    post["account_id"],
                    post["ig_username"],
                    post["media_id"],
                    post["published_at"],
                    metric,
                    first,
                    first_at,
                    latest,
                    latest_at,
                    vanished_at,
                    latest - first,
                    (latest - first) / days if days else None,
                    _count_after(post, counts, 24),
                    _count_after(post, counts, 7 * 24),
                )
            )
    return answer


def _fate(world: World, story: Row) -> str:
    if story["removal"]:
        return str(story["removal"])
    scanned_at = _scanned_at(world, story["account_id"], "stories")
    is_young = _now(world) < (story["published_at"] or story["first_seen_at"]) + DAY
    return "live" if is_young and scanned_at is not None and story["last_seen_at"] >= scanned_at else "unconfirmed"


def stories_by_day(world: World) -> Answer:
    days: dict[tuple[str, str, object], list[str]] = defaultdict(list)
    for story in _items(world, "stories"):
        day = (story["published_at"] or story["first_seen_at"]).astimezone(UTC).date()
        days[story["account_id"], story["ig_username"], day].append(_fate(world, story))
    kinds = ("live", "expired", "removed", "unconfirmed")
    return [(*key, len(fates), *(fates.count(kind) for kind in kinds)) for key, fates in days.items()]


def post_performance(world: World) -> Answer:
    ripe = [
        post
        for post in _items(world, "posts")
        if post["like_count"] is not None
        and post["published_at"] is not None
        and post["last_seen_at"] - post["published_at"] >= 7 * DAY
    ]
    answer: Answer = []
    for post in ripe:
        usual = median(other["like_count"] for other in ripe if other["account_id"] == post["account_id"])
        shown = ("account_id", "ig_username", "media_id", "published_at", "like_count")
        answer.append((*(post[name] for name in shown), float(usual), post["like_count"] / usual if usual else None))
    return answer


def _by_time(
    world: World, key: Callable[[tuple[Any, ...], datetime], tuple[Any, ...]]
) -> dict[tuple[Any, ...], Answer]:
    found: dict[tuple[Any, ...], Answer] = defaultdict(list)
    for post in post_performance(world):
        if post[-1] is not None:
            found[key(post, post[3].astimezone(UTC))].append(post)
    return found


def best_hour(world: World) -> Answer:
    found = _by_time(world, lambda _, moment: (moment.weekday() + 1, moment.hour))
    return [
        (*key, len(posts), len({post[0] for post in posts}), median(post[-1] for post in posts))
        for key, posts in found.items()
    ]


def best_hour_by_account(world: World) -> Answer:
    hours = _by_time(world, lambda post, moment: (*post[:2], None, moment.hour))
    weekdays = _by_time(world, lambda post, moment: (*post[:2], moment.weekday() + 1, None))
    return [
        (*key, len(posts), float(median(post[4] for post in posts)), median(post[-1] for post in posts))
        for key, posts in (hours | weekdays).items()
    ]


def caption_edits(world: World) -> Answer:
    versions: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in sorted(world["media_history"], key=lambda row: row["valid_from"]):
        versions[row["account_id"], row["surface"], row["media_id"], row["ig_username"]].append(row)
    return [
        (*key, new["valid_from"], old["caption"], new["caption"])
        for key, rows in versions.items()
        for old, new in pairwise(rows)
        if old["caption"] != new["caption"]
    ]


def token_downtime(world: World) -> Answer:
    return [
        (
            *(row[name] for name in ("account_id", "ig_username", "valid_from", "valid_to")),
            ((row["valid_to"] or _now(world)) - row["valid_from"]) / DAY,
        )
        for row in world["account_status_history"]
        if row["status"] == "token_expired"
    ]


def hashtags(world: World) -> Answer:
    likes = {(row[0], row[2]): row[-1] for row in post_performance(world)}
    tagged: dict[str, list[Row]] = defaultdict(list)
    for post in _items(world, "posts"):
        for tag in {
            word[1:].lower() for word in (post["caption"] or "").split() if word.startswith("#") and word != "#"
        }:
            tagged[tag].append(post)
    answer: Answer = []
    for tag, posts in tagged.items():
        times = [post["published_at"] for post in posts if post["published_at"] is not None]
        known = [found for post in posts if (found := likes.get((post["account_id"], post["media_id"]))) is not None]
        accounts = len({post["account_id"] for post in posts})
        first, last = min(times, default=None), max(times, default=None)
        answer.append((tag, len(posts), accounts, first, last, median(known) if known else None))
    return answer


ANSWERS: Mapping[str, Callable[[World], Answer]] = {
    answer.__name__: answer
    for answer in (
        freshness,
        expired_accounts,
        posting_cadence,
        stale_accounts,
        engagement_by_day,
        post_growth,
        stories_by_day,
        post_performance,
        best_hour,
        best_hour_by_account,
        caption_edits,
        token_downtime,
        hashtags,
    )
}
