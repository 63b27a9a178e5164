"""What the sandbox serves, compared with the contents of a snapshot."""

import json
from typing import Any

from tests.api.server import Api
from tests.e2e.processes import Operator
from tests.simulation.model import id_of, published


def expected_media(service: Api) -> dict[tuple[str, str, str], Any]:
    """Return the items that the API lists today for active accounts, by key."""
    skipped = set(service.ids("token_expired"))
    return {
        (account_id, surface, str(id_of(item))): item
        for account_id, surface, item in service.list_media()
        if account_id not in skipped
    }


def _stored(operator: Operator) -> dict[tuple[str, str, str], Any]:
    rows = operator.ask(
        "SELECT account_id, surface, media_id, raw_media.payload"
        " FROM media JOIN raw_media USING (account_id, surface, media_id) WHERE removed_at IS NULL"
        " AND account_id IN (SELECT account_id FROM accounts WHERE removed_at IS NULL)"
    )
    stored = {(account_id, surface, item_id): json.loads(payload) for account_id, surface, item_id, payload in rows}
    assert len(stored) == len(rows)
    return stored


def assert_matches_api_above_depths(operator: Operator, service: Api) -> None:
    """Assert that the snapshot has all items the API lists above the depths in `freshness`, and no gaps."""
    assert operator.ask("SELECT account_id, surface FROM gaps") == []
    depths = dict(operator.ask("SELECT account_id, covered_from FROM freshness WHERE surface = 'posts'"))
    stored = _stored(operator)
    for key, item in expected_media(service).items():
        depth, at = depths[key[0]] if key[1] == "posts" else None, published(item)
        if depth is None or (at is not None and at > depth):
            assert key in stored, (key, depth)
            assert _without_url_parameters(stored[key]) == _without_url_parameters(item), (key, depth)


def assert_matches_api(operator: Operator, service: Api) -> None:
    """Assert that the snapshot has exactly the accounts and items that the API lists."""
    accounts = operator.ask("SELECT account_id, ig_username, public_id, status FROM accounts WHERE removed_at IS NULL")
    shown = [(a["id"], a["ig_username"], a["public_id"], a["status"]) for a in service.list_accounts()]
    assert sorted(accounts) == sorted(shown)
    expired = set(service.ids("token_expired"))
    stored = {key: _without_url_parameters(item) for key, item in _stored(operator).items() if key[0] not in expired}
    assert stored == {key: _without_url_parameters(item) for key, item in expected_media(service).items()}


def _without_url_parameters(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Remove the query strings of URLs: if only they differ, a row is not rewritten."""
    if isinstance(value, dict):
        return {name: _without_url_parameters(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_url_parameters(inner) for inner in value]
    return value.split("?")[0] if isinstance(value, str) and value.startswith("https://") else value
