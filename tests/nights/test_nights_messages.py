"""What commands say and print: one clear line for each wrong input, and nothing that is not so."""

from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from connectors.sandbox.http.replies import PageRequest
from tests.nights.conftest import Operator
from tests.nights.service import Answer, Page, Service, failure, is_media, items_of


@pytest.mark.parametrize("query", [b"SELECT \xff", b"\x80", b"SELECT 'caf\xe9'"])
def test_a_query_that_is_not_utf_8_is_one_line(operator: Operator, query: bytes) -> None:
    operator.connect(Service(accounts=1, posts=1))
    operator.run("sync")
    operator.type(query)
    done = operator.run("query", "-")
    assert done.code == 2, done.err
    assert "UTF-8" in done.err
    assert len(done.err.splitlines()) == 1


def test_polars_reads_the_surface_of_exported_items(operator: Operator) -> None:
    operator.connect(Service(accounts=1, posts=3, stories=2))
    operator.run("sync")
    assert operator.run("export", "exported").code == 0
    files = sorted(Path("exported").rglob("*.parquet"))
    of_media = [file for file in files if "media_id" in pl.read_parquet_schema(file)]
    assert of_media
    assert [str(file) for file in of_media if "surface" not in pl.read_parquet_schema(file)] == []


def explained(operator: Operator, what: str) -> str:
    return operator.run("explain", what).text


def test_explain_does_not_promise_the_scan_of_an_unknown_status(operator: Operator) -> None:
    def paused(request: PageRequest, page: Page) -> Answer:
        is_second = request.account is None
        return {**page, "items": [page["items"][0], {**page["items"][1], "status": "paused"}]} if is_second else None

    service = operator.connect(Service(accounts=2, posts=1))
    operator.sync()
    service.respond = paused
    operator.sync()
    text = explained(operator, service.names()[1])
    assert "paused" in text
    assert "the next scan begins" not in text


def test_explain_does_not_promise_a_scan_while_the_catalogue_has_to_wait(operator: Operator) -> None:
    service = operator.connect(Service(accounts=2, posts=1))
    operator.sync()
    service.respond = lambda request, _: (
        None if request.account else failure(429, "rate_limited", (b"retry-after", b"18000"))
    )
    assert operator.run("sync").code in (1, 3)
    text = explained(operator, service.names()[1])
    assert "the next scan begins" not in text


def test_explain_names_the_scans_that_removed_an_item(operator: Operator) -> None:
    def dated(request: PageRequest, page: Page) -> Answer:
        """List posts of one an hour until the first night, the newest first."""
        first = operator.clock.since
        numbered = {number: index for index, number in enumerate(service.post_ids(0))}
        return (
            items_of(
                page,
                lambda item: {**item, "timestamp": (first - timedelta(hours=numbered[item["id"]] + 1)).isoformat()},
            )
            if request.account
            else None
        )

    def without_the_fifth(request: PageRequest, page: Page) -> Answer:
        known = dated(request, page)
        return {**page, "items": [*known["items"][:4], *known["items"][5:]]} if isinstance(known, dict) else None

    service = operator.connect(Service(accounts=1, posts=60))
    operator.set(page_size="10", lookback_window="0")
    service.respond = dated
    for _night in range(3):
        operator.sync("--incremental", "--surface", "posts")
    service.respond = lambda request, page: (
        without_the_fifth(request, page) if is_media(request) and request.cursor is None else dated(request, page)
    )
    for _night in range(2):
        operator.sync("--incremental", "--surface", "posts")
    assert operator.count("run_outcomes", "outcome = 'recent'") >= 2
    assert operator.count("media", "removed_at IS NOT NULL") == 1
    text = explained(operator, service.post_ids(0)[4])
    assert "Removed" in text
    assert "two complete scans" not in text
    assert "recent" in text


def test_a_run_is_too_long_once_its_next_one_was_due(operator: Operator) -> None:
    served: set[int] = set()

    def one_in_half_an_hour(request: PageRequest, _: Page) -> Answer:
        if not request.account or (half_hour := int(operator.clock.passed / 1800)) not in served:
            served.update([half_hour] if request.account else [])
            return None
        return failure(503, "rate_limiter_unavailable", (b"retry-after", b"1800"))

    # The clock begins at 02:15, so the next run is due after four hours, and not after twenty.
    operator.set(nightly="15 2,6 * * *", max_wait="1000000")
    operator.connect(Service(accounts=12, posts=1)).respond = one_in_half_an_hour
    warnings = operator.run("sync", "--surface", "posts", "--json").json()["findings"]
    assert "requests_per_second" in [warning["code"] for warning in warnings]
    assert 4 * 3600 < operator.clock.passed < 20 * 3600
    assert "longer_than_schedule" in [warning["code"] for warning in warnings]
