"""The contract's literal examples and the OpenAPI description agree, in both directions."""

from typing import Any

import pytest

from tests.conformance.contract_examples import ERRORS, EXAMPLES, MEDIA, Example, may_answer
from tests.conformance.description import SCHEMAS, description
from tests.conformance.openapi_check import PATHS, invalid_variants, schema, shown, violations

# What the contract leaves open: a missing content type is not covered by a schema, a correlation id in the envelope is
# optional, and the shape of a media page is not shown.
OPEN = {"without error.correlation_id"}
CASES = [(example, operation) for example in EXAMPLES for operation in example.operations]
CLOSED = [(example, operation) for example, operation in CASES if example.status != 200 or operation != MEDIA]


def _named(value: object) -> str:
    return value.name if isinstance(value, Example) else str(value)


def test_the_description_is_openapi() -> None:
    schema().validate()


@pytest.mark.parametrize(("example", "operation"), CASES, ids=_named)
def test_every_example_is_described(example: Example, operation: str) -> None:
    assert violations(operation, example.status, example.headers, example.body) == []


@pytest.mark.parametrize(("example", "operation"), CLOSED, ids=_named)
def test_no_spoilt_example_is_described(example: Example, operation: str) -> None:
    taken = {
        way
        for way, (headers, body) in invalid_variants(example).items()
        if not violations(operation, example.status, headers, body)
    }
    assert taken == OPEN & invalid_variants(example).keys()


def test_an_error_of_another_status_is_not_described() -> None:
    for example, operation in CASES:
        if example.code is not None:
            others = {400, 401, 403, 413, 415, 422} - {example.status}
            assert all(violations(operation, status, example.headers, example.body) for status in others)


def test_everything_described_has_an_example_and_is_shown_by_the_contract() -> None:
    by_code = {(example.status, example.code) for example in EXAMPLES}
    for operation, status, code in shown():
        assert (status, code) in by_code
        assert code is None or may_answer(operation, code), (operation, code)


def test_every_example_stands_where_the_description_has_it() -> None:
    assert {(operation, example.status, example.code) for example, operation in CASES} <= shown()


def test_every_429_has_a_retry_after_of_at_least_one_second() -> None:
    example = ERRORS["rate_limited"]
    for operation, path in PATHS.items():
        header = description()["paths"][path]["get"]["responses"]["429"]["headers"]["Retry-After"]
        assert (header["required"], header["schema"]) == (True, {"type": "integer", "minimum": 1})
        assert "at least 1" in header["description"]
        assert violations(operation, 429, example.headers, example.body) == []
        for wrong in ("0", "-1", "1.5", "soon", "Fri, 31 Dec 2100 23:59:59 GMT"):
            assert violations(operation, 429, {**example.headers, "Retry-After": wrong}, example.body)


def test_only_the_cursor_of_a_media_page_is_described() -> None:
    page: dict[str, Any] = SCHEMAS["PublicInstagramMediaPageV1"]
    assert page["properties"].keys() == {"next_cursor"}
    assert page.get("required", []) == []


def test_a_media_cursor_has_no_minimum_length() -> None:
    parameters = description()["paths"]["/api/v1/accounts/{accountId}/media"]["get"]["parameters"]
    (cursor,) = (parameter for parameter in parameters if parameter["name"] == "cursor")
    assert "minLength" not in cursor["schema"]
