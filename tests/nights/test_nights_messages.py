"""What commands say and print: one clear line for each wrong input, and nothing that is not so."""

from datetime import timedelta

import polars as pl
import pytest

from connectors.sandbox.http.replies import PageRequest
from tests.nights.conftest import Operator
from tests.nights.service import Answer, Page, Service


@pytest.mark.parametrize("query", [b"SELECT \xff", b"\x80", b"SELECT 'caf\xe9'"])
def test_a_query_that_is_not_utf_8_is_one_line(operator: Operator, query: bytes) -> None:
    operator.connect(Service(accounts=1, posts=1))
    operator.run("sync")
    operator.type(query)
    [line] = operator.run("query", "-", code=2).stderr.splitlines()
    assert "UTF-8" in line


def test_polars_reads_the_surface_of_exported_items(operator: Operator) -> None:
    operator.connect(Service(accounts=1, posts=3, stories=2))
    operator.run("sync")
    operator.run("export", "exported")
    schemas = [pl.read_parquet_schema(file) for file in operator.folder.rglob("exported/**/*.parquet")]
    assert {"surface" in schema for schema in schemas if "media_id" in schema} == {True}


def paused(request: PageRequest, page: Page) -> Answer:
    first, second = page["items"] if request.account is None else ({}, {})
    return None if request.account else {**page, "items": [first, {**second, "status": "paused"}]}


def test_explain_does_not_promise_a_scan_of_an_unknown_status(operator: Operator) -> None:
    service = operator.connect(Service(accounts=2, posts=1))
    operator.night()
    service.respond = paused
    operator.run("sync", code=None)
    [found] = operator.run("explain", service.names()[1], "--json").json()["found"]
    assert found["account"]["status"] == "paused"
    assert {(each["next_scan"], each["next_reason"]) for each in found["surfaces"]} == {("none", "unknown_status")}


def test_explain_names_the_scans_that_removed_an_item(operator: Operator) -> None:
    service = operator.connect(Service(accounts=1, posts=60))
    posts, first = service.post_ids(0), operator.clock.since

    def dated(request: PageRequest, page: Page) -> Answer:
        """List posts of one an hour until the first night, the newest first; after three nights without the fifth."""
        if not request.account:
            return None
        items = [
            {**item, "timestamp": (first - timedelta(hours=posts.index(item["id"]) + 1)).isoformat()}
            for item in page["items"]
            if item["id"] != posts[4] or operator.clock.passed < 3 * 86_400
        ]
        return {**page, "items": items}

    operator.set(page_size="10", lookback_window="0")
    service.respond = dated
    for _ in range(5):
        operator.night("--incremental", "--surface", "posts", code=None)
    assert operator.count("run_outcomes", "outcome = 'recent'") >= 2
    assert operator.count("media", "removed_at IS NOT NULL") == 1
    text = operator.run("explain", posts[4]).text
    assert [each in text for each in ("Removed", "recent", "two complete scans")] == [True, True, False]
