"""The sections about required action, and about failures by their cause."""

from collections.abc import Iterator

from connectors.warehouse.runs.failure_groups import grouped
from flows.reporting.page.html import Html, Row, Table, element, foreign, join, rest
from flows.reporting.page.reader import Reader, Record, account, stamp
from flows.reporting.words import count, fix_for, long_cooldowns, span

_EXPIRED = """
SELECT ig_username, token_expired_since, media_as_of, count(*) OVER () AS total FROM expired_accounts
WHERE {only} ORDER BY token_expired_since, ig_username LIMIT 20
"""

# The last outcome of each partition that is incomplete, with the correlation id to quote to the API's support.
_INCOMPLETE = """
SELECT f.ig_username, f.surface, f.outcome, f.error_code, f.last_tried_at, f.complete_at, f.resume_after,
    o.correlation_id, count(*) OVER () AS total
FROM fresh AS f
LEFT JOIN (
    SELECT account_id, surface, ended_at, max(correlation_id) AS correlation_id FROM run_outcomes
    WHERE resource = 'media' AND outcome NOT IN ('complete', 'skipped', 'recent') GROUP BY ALL
) AS o ON o.account_id = f.account_id AND o.surface = f.surface AND o.ended_at = f.last_tried_at
WHERE f.outcome NOT IN ('complete', 'skipped', 'recent') AND {which}
ORDER BY f.complete_at NULLS FIRST, f.ig_username, f.surface LIMIT 20
"""

_WARNINGS = """
SELECT w.detail, w.hint, w.makes_partial FROM run_warnings AS w
WHERE run_id = (SELECT arg_max(run_id, seq) FROM runs WHERE kind <> 'totals') ORDER BY w.makes_partial DESC, w.code
"""

_QUARANTINE = """
SELECT reason, count(*) AS records, max(last_seen_at) AS last_at, any_value(correlation_id ORDER BY last_seen_at DESC)
    AS correlation_id
FROM quarantine WHERE ({only} OR account_id = '') AND (surface = '' OR surface IN {surfaces})
GROUP BY reason ORDER BY records DESC, reason LIMIT 20
"""

# Only changes found by a later run than the first one with this field: until then the field is new.
_RETYPED = """
SELECT resource, path, type, last_type_change_at FROM fields AS f
WHERE last_type_change_at >= {at} - INTERVAL 7 DAY
  AND EXISTS (FROM runs AS r WHERE r.started_at > f.first_seen_at AND r.started_at <= f.last_type_change_at)
ORDER BY last_type_change_at DESC, resource, path LIMIT 20
"""

# The catalogue does not count as an account.
_LAST_RUNS = """
SELECT o.* REPLACE (nullif(o.account_id, '') AS account_id) FROM run_outcomes AS o
SEMI JOIN (SELECT run_id FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT 30) USING (run_id)
WHERE ({only} AND o.surface IN {surfaces}) OR o.resource = 'accounts'
"""

_STALE = """
SELECT count(*) FILTER (is_stale) AS stale, count(DISTINCT account_id) FILTER (is_stale) AS accounts FROM fresh
"""

# The accounts, and the catalogue with an empty name, whose last scans a cooldown of more than a day deferred.
_COOLDOWNS = """
SELECT coalesce(any_value(a.ig_username), '') AS ig_username, max(o.resume_after) AS until
FROM (
    SELECT account_id, unnest(arg_max({'outcome': outcome, 'resume_after': resume_after}, r.seq))
    FROM run_outcomes JOIN runs AS r USING (run_id) GROUP BY resource, account_id, surface
) AS o LEFT JOIN accounts AS a USING (account_id)
WHERE o.outcome = 'deferred' AND o.resume_after > {at} + INTERVAL 1 DAY AND a.removed_at IS NULL
  AND ({only} OR o.account_id = '')
GROUP BY o.account_id ORDER BY ig_username
"""


def _fix(code: str | None) -> Html | None:
    fix = fix_for(code or "")
    return element("p", fix, class_="fix") if fix else None


def _trace(correlation_id: str | None) -> Html:
    return element("code", foreign(correlation_id)) if correlation_id else Html("")


def _outcome(record: Record) -> Html:
    code = element("code", foreign(record["error_code"])) if record["error_code"] else None
    return join([element("span", record["outcome"].replace("_", " "), class_=f"tag {record['outcome']}"), " ", code])


def _expired(reader: Reader) -> tuple[Html | None, int]:
    found = reader.records(_EXPIRED)
    if not found:
        return None, 0
    total = found[0]["total"]
    rows = [
        Row(
            [account(each["ig_username"]), reader.age(each["token_expired_since"]), reader.age(each["media_as_of"])],
            reader.key(each["ig_username"]),
        )
        for each in found
    ]
    heads = ("account", "expired since (UTC)", "media as of (UTC)")
    table = Table("Accounts whose token expired", heads, rows, more=rest(total, len(rows), "FROM expired_accounts"))
    message = "The owners must reconnect these accounts; the next sync then fetches their media."
    return join([element("h3", f"{count(total, 'access token')} to renew"), element("p", message), table.html()]), total


def _incomplete(reader: Reader, *, deferred: bool) -> tuple[Html | None, int]:
    which = f"f.outcome {'=' if deferred else '<>'} 'deferred'"
    found = reader.records(_INCOMPLETE.replace("{which}", which))
    if not found:
        return None, 0
    total = found[0]["total"]
    rows = [
        Row(
            [
                account(each["ig_username"]),
                each["surface"],
                _outcome(each),
                reader.age(each["last_tried_at"]),
                reader.age(each["complete_at"]),
                *([stamp(each["resume_after"]) if each["resume_after"] else "next run"] if deferred else []),
                _trace(each["correlation_id"]),
            ],
            reader.key(each["ig_username"]),
            each["surface"],
        )
        for each in found
    ]
    resumes = ("not before (UTC)",) if deferred else ()
    heads = ("account", "surface", "outcome", "tried (UTC)", "complete (UTC)", *resumes, "correlation id")
    query = f"FROM freshness WHERE outcome {'=' if deferred else 'NOT IN'} "
    query += "'deferred'" if deferred else "('complete', 'skipped', 'recent', 'deferred')"
    what = "deferred: a later run resumes them automatically" if deferred else "not complete in their last run"
    title = f"{count(total, 'scan')} {what}"
    table = Table(title, heads, rows, more=rest(total, len(rows), query))
    return join([element("h3", title), table.html()]), total


def _others(reader: Reader) -> Iterator[Html]:
    stale = reader.one(_STALE)
    if stale["stale"]:
        limit = span(reader.published["stale_after"])
        what = f"{count(stale['stale'], 'scan')} of {count(stale['accounts'], 'account')}"
        see = element("a", "Freshness", href="#freshness")
        yield element("li", element("b", f"Stale: {what}"), f", no completed scan within {limit}. See ", see, ".")
    if cooldowns := reader.records(_COOLDOWNS):
        text = long_cooldowns([each["ig_username"] for each in cooldowns], max(each["until"] for each in cooldowns))
        yield element("li", element("b", "Blocked: "), foreign(text, 500))
    for each in reader.records(_WARNINGS):
        fix = ["Fix: ", foreign(each["hint"], 500)] if each["hint"] else None
        yield element("li", element("b", "Warning of the last run: "), foreign(each["detail"], 500), " ", fix)
    for each in reader.records(_QUARANTINE):
        trace = [", correlation id ", _trace(each["correlation_id"])] if each["correlation_id"] else None
        what = f"{count(each['records'], 'record')} in quarantine"
        last = ["; last seen ", stamp(each["last_at"]), trace, ". See "]
        command = element("code", "gramhouse quarantine")
        yield element("li", element("b", what), ": ", foreign(each["reason"], 200), last, command, ".")
    for each in reader.records(_RETYPED):
        path = element("code", foreign(each["path"]))
        when = stamp(each["last_type_change_at"])
        kind = element("code", foreign(each["type"]))
        yield element("li", element("b", "A field changed type: "), path, " is ", kind, " since ", when, ".")


def attention(reader: Reader) -> tuple[Html, int]:
    """Return what needs action as lists, and the number of these things, without scans that resume automatically."""
    expired, tokens = _expired(reader)
    incomplete, scans = _incomplete(reader, deferred=False)
    others = list(_others(reader))
    things = tokens + scans + len(others)
    parts = [
        element("p", "No action required.", class_="good") if not things else None,
        element("ul", others, class_="others") if others else None,
        expired,
        incomplete,
        _incomplete(reader, deferred=True)[0],
    ]
    return join(parts), things


def causes(reader: Reader) -> Html:
    """Return the failures of the last 30 runs by their cause, with correlation ids to quote to the API's support."""
    found = reader.records(grouped(_LAST_RUNS) + " LIMIT 20")
    if not found:
        message = "No scan of the last 30 runs failed, was denied, was not found or was deferred."
        return element("p", message, class_="good")
    rows = [
        Row(
            [
                join([_outcome(each), _fix(each["error_code"]) if each["outcome"] != "deferred" else None]),
                each["scans"],
                each["accounts"],
                stamp(each["first_at"]),
                stamp(each["last_at"]),
                [element("div", _trace(trace)) for trace in each["correlation_ids"] or () if trace],
            ]
        )
        for each in found
    ]
    heads = ("cause", "scans", "accounts", "first (UTC)", "last (UTC)", "last correlation ids")
    return Table("Failures of the last 30 runs by cause", heads, rows, frozenset({1, 2})).html()
