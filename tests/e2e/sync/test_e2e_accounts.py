"""A wrong key, one with fewer grants, another address: nothing is removed, and the run says so."""

import re

import pytest

from tests.api.server import Api
from tests.operator import Operator

pytestmark = pytest.mark.e2e

FEWER = "sandbox-one-account-key"
PRESENT = "SELECT count(*) FROM accounts WHERE removed_at IS NULL"


def test_a_key_with_fewer_grants_removes_nothing_until_confirmed(operator: Operator) -> None:
    operator.sync()
    text = operator.run("sync", code=3, GRAMHOUSE_API_KEY=FEWER).stdout
    assert re.search(r"7 of 8 known accounts \(.* and 2 more\) are missing from the catalogue, and not marked as", text)
    assert "--accept-removals" in text
    assert operator.ask(PRESENT) == [(8,)]
    assert "7 of 8 known accounts (" in operator.run("status", code=3).stdout
    result = operator.run("sync", "--accept-removals", "--json", GRAMHOUSE_API_KEY=FEWER).json()
    assert (result["state"], result["accounts_missing"], result["accounts_removed"]) == ("complete", 0, 7)
    assert operator.ask("SELECT accept_removals, accounts_removed FROM runs ORDER BY seq")[-1] == (True, 7)
    assert operator.ask(PRESENT) == [(1,)]


def test_another_address_is_refused_until_a_person_accepts_it(operator: Operator, service: Api) -> None:
    operator.run("sync", "--base-url", f"{service.url}/api/v1/")
    other = service.url.replace("127.0.0.1", "localhost")
    for command in (["sync"], ["backfill", "--all"]):
        service.requests.clear()
        text = operator.run(*command, code=2, GRAMHOUSE_BASE_URL=other).stderr
        assert f"This warehouse was filled from {service.url}, but the configured address is {other}." in text
        assert "--rebind" in text
        assert service.requests == []
    operator.run("sync", "--rebind", GRAMHOUSE_BASE_URL=other)
    runs = operator.ask("SELECT base_url, state FROM runs ORDER BY seq")
    assert runs == [(service.url, "complete"), (other, "complete")]
    operator.run("sync", code=2)


def test_a_wrong_key_is_one_clear_line_and_loses_nothing(operator: Operator) -> None:
    operator.sync()
    rows = "SELECT * EXCLUDE (last_seen_at) FROM media ORDER BY ALL"
    before = operator.ask(rows)
    [line] = operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong").stdout.strip().splitlines()
    assert line.count("api_unauthorized") == 1
    assert "check the API key" in line
    assert operator.ask(rows) == before
    last = operator.ask("SELECT state, error_code FROM runs ORDER BY seq DESC LIMIT 1")
    assert last == [("failed", "api_unauthorized")]
