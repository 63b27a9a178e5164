"""Rule C: what the service did not say is a gateway's word. It never stops a run and never blames the key."""

import gzip
import json

import pytest

from connectors.sandbox.http.replies import PageRequest
from tests.api.server import OddReply
from tests.nights.conftest import Operator
from tests.nights.service import Answer, Page, Service, gateway, is_media

LOGIN = (b"location", b"https://portal.example/login")


@pytest.mark.parametrize("status", [401, 302])
def test_one_page_of_a_gateway_costs_nothing(operator: Operator, status: int) -> None:
    service = operator.connect(Service(accounts=3))

    def once(request: PageRequest, _: Page) -> Answer:
        is_first = is_media(request, 1) and sum(is_media(one, 1) for one in service.asked) == 1
        return gateway(status, LOGIN) if is_first else None

    service.respond = once
    done = operator.sync()
    assert done.code == 0, done.text
    assert operator.count("media") == sum(len(service.post_ids(position)) for position in range(3))


@pytest.mark.parametrize(("status", "of_media"), [(401, True), (403, False)])
def test_a_gateway_that_refuses_always_is_named(operator: Operator, status: int, *, of_media: bool) -> None:
    service = operator.connect(Service(accounts=2))
    service.respond = lambda request, _: (
        gateway(status) if is_media(request, 1) or (not of_media and not request.account) else None
    )
    done = operator.sync()
    assert done.code == (3 if of_media else 1)
    assert "gateway" in done.text
    assert "API key" not in done.text
    assert "grant" not in done.text


def test_doctor_is_not_content_with_a_gateway(operator: Operator) -> None:
    operator.connect(Service()).respond = lambda _request, _page: gateway(404)
    done = operator.run("doctor")
    assert done.code == 1, done.text
    assert "gateway" in done.text


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
        body = gzip.compress(body) if is_gzip else body
        return OddReply(
            200,
            body + after,
            [(b"content-type", b"application/json"), (b"content-encoding", coding.encode())],
            correlated=False,
        )

    operator.connect(Service(accounts=1)).respond = encode
    done = operator.sync()
    assert done.code == 0, done.text


@pytest.mark.parametrize("how", ["age", "correlation id"])
def test_what_a_cache_kept_makes_nothing_fresh(operator: Operator, how: str) -> None:
    def kept(_: PageRequest, page: Page) -> Answer:
        told = (b"age", b"3600") if how == "age" else (b"x-correlation-id", b"0123456789ABCDEFGHJKMNPQRS")
        own = [] if how != "age" else [(b"x-correlation-id", f"{len(service.asked):026d}".encode())]
        return OddReply(
            200, json.dumps(page).encode(), [(b"content-type", b"application/json"), told, *own], correlated=False
        )

    service = operator.connect(Service(accounts=1))
    operator.sync()
    before = operator.ask("SELECT surface, complete_at FROM freshness ORDER BY surface")
    service.respond = kept
    done = operator.sync()
    assert (done.code, "cache" in done.text) == (3, True)
    assert operator.ask("SELECT surface, complete_at FROM freshness ORDER BY surface") == before
