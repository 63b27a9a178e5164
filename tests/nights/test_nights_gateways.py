"""Rule C: what the service did not say is a gateway's word. It never stops a run and never blames the key."""

import gzip
import json

import pytest

from connectors.sandbox.http.replies import PageRequest
from tests.api.faults import JSON
from tests.api.server import OddReply
from tests.nights.conftest import Operator
from tests.nights.service import Answer, Page, Service, gateway, is_media

LOGIN = "https://portal.example/login"


@pytest.mark.parametrize("status", [401, 302])
def test_one_page_of_a_gateway_costs_nothing(operator: Operator, status: int) -> None:
    service = operator.connect(Service(accounts=3))
    service.respond = lambda request, _: (
        gateway(status, location=LOGIN)
        if is_media(request, 1) and sum(is_media(one, 1) for one in service.asked) == 1
        else None
    )
    operator.run("sync")
    assert operator.count("media") == sum(len(service.post_ids(position)) for position in range(3))


@pytest.mark.parametrize(("status", "of_media"), [(401, True), (403, False)])
def test_a_gateway_that_refuses_always_is_named(operator: Operator, status: int, *, of_media: bool) -> None:
    operator.connect(Service(accounts=2)).respond = lambda request, _: (
        gateway(status) if is_media(request, 1) or (not of_media and not request.account) else None
    )
    text = operator.run("sync", code=3 if of_media else 1).text
    assert [word in text for word in ("gateway", "API key", "grant")] == [True, False, False]


def test_doctor_is_not_content_with_a_gateway(operator: Operator) -> None:
    operator.connect(Service()).respond = lambda _request, _page: gateway(404)
    assert "gateway" in operator.run("doctor", code=1).text


@pytest.mark.parametrize(
    ("coding", "is_gzip", "after"),
    [
        ("none", False, b""),
        ("utf-8", False, b""),
        ("gzip, identity", True, b""),
        ("utf-8, gzip", True, b""),
        ("gzip", True, b"\0\0"),
        ("gzip", True, b"\n"),
    ],
)
def test_encodings_that_httpx_and_curl_read(operator: Operator, coding: str, after: bytes, *, is_gzip: bool) -> None:
    def encode(_: PageRequest, page: Page) -> Answer:
        body = json.dumps(page).encode()
        return OddReply((gzip.compress(body) if is_gzip else body) + after, JSON | {"Content-Encoding": coding})

    operator.connect(Service(accounts=1)).respond = encode
    operator.run("sync")


@pytest.mark.parametrize("how", ["age", "correlation id"])
def test_what_a_cache_kept_makes_nothing_fresh(operator: Operator, how: str) -> None:
    def kept(_: PageRequest, page: Page) -> Answer:
        trace = f"{len(service.asked):026d}" if how == "age" else "0123456789ABCDEFGHJKMNPQRS"
        headers = {"X-Correlation-ID": trace, "Age": "3600" if how == "age" else "0"}
        return OddReply(json.dumps(page).encode(), JSON | headers)

    service = operator.connect(Service(accounts=1))
    operator.night()
    before = operator.ask("SELECT surface, complete_at FROM freshness ORDER BY surface")
    service.respond = kept
    assert "cache" in operator.run("sync", code=3).text
    assert operator.ask("SELECT surface, complete_at FROM freshness ORDER BY surface") == before
