import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.asgi_client import ACCOUNTS, Asker

EXAMPLES = [json.loads(path.read_text()) for path in (Path(__file__).parents[1] / "contract").glob("*.json")]
STATUSES = {
    "accounts.list": {200, 400, 401, 403, 413, 415, 422, 429, 500, 503},
    "accounts.media.list": {200, 400, 401, 403, 404, 413, 415, 422, 429},
}


@pytest.fixture
def document(asker: Asker) -> dict[str, Any]:
    described: dict[str, Any] = asker.raw("/openapi.json").json()
    return described


def operations(document: dict[str, Any]) -> dict[str, Any]:
    return {path["get"]["operationId"]: path["get"] for path in document["paths"].values()}


def test_it_describes_every_status_of_section_4_and_the_429_of_media(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    shown = {name: set(map(int, operation["responses"])) for name, operation in operations(document).items()}
    assert shown == STATUSES


def test_every_example_is_described(document: dict[str, Any]) -> None:
    for example in EXAMPLES:
        for name in example["operations"]:
            response = operations(document)[name]["responses"][str(example["status"])]
            for header in example["headers"].keys() - {"Content-Type"}:
                assert header in response["headers"]
            if example["status"] >= 400:
                codes = response["content"]["application/json"]["schema"]["oneOf"]
                assert {"$ref": f"#/components/schemas/error_{example['body']['error']['code']}"} in codes


def test_parameters_and_security(document: dict[str, Any]) -> None:
    shown = {
        name: [(p["name"], p["in"], p.get("required", False)) for p in operation["parameters"]]
        for name, operation in operations(document).items()
    }
    assert shown == {
        "accounts.list": [("cursor", "query", False), ("limit", "query", False)],
        "accounts.media.list": [
            ("accountId", "path", True),
            ("surface", "query", True),
            ("cursor", "query", False),
            ("limit", "query", False),
        ],
    }
    assert document["components"]["securitySchemes"]["apiKey"] == {"type": "http", "scheme": "bearer"}
    assert list(document["paths"]) == [ACCOUNTS, f"{ACCOUNTS}/{{accountId}}/media"]


def test_every_reference_names_an_existing_schema(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    for part in text.split('"$ref": "#/components/schemas/')[1:]:
        assert part.partition('"')[0] in document["components"]["schemas"]


def test_served_responses_match_the_description(asker: Asker, document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    page = asker.get().json()
    assert page.keys() == schemas["AccountPageV1"]["properties"].keys()
    assert all(account.keys() == schemas["AccountV1"]["properties"].keys() for account in page["items"])
