"""The command `gramhouse rebuild`, and the raw store that it reads."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from tests.api.server import Api
from tests.operator import Cli

SNAPSHOT = Path("data/analytics.duckdb")


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    sandbox = Api(SandboxSettings(accounts=6, posts=12, seed=11))
    with in_thread(sandbox) as url:
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", url)
        monkeypatch.setenv("GRAMHOUSE_API_KEY", "sandbox-demo-key")
        yield sandbox


OWNER = """
[mapping.columns.owner]
paths = ["$.owner.id", "$.user.pk"]
"""


def owners() -> tuple[int, int]:
    with duckdb.connect(str(SNAPSHOT), read_only=True) as db:
        items, of_somebody = db.execute("SELECT count(*), count(owner) FROM media").fetchall()[0]
        return int(items), int(of_somebody)


def test_a_new_mapping_is_applied_without_asking_the_api(run_cli: Cli, sandbox: Api) -> None:
    assert not json.loads(run_cli("sync", "--json")[1])["mapping_pending"]
    Path("gramhouse.toml").write_text(OWNER, encoding="utf-8")
    sandbox.day = 1
    assert "Fix: `gramhouse rebuild` applies the current one." in run_cli("sync")[1]
    asked = len(sandbox.requests)
    out = run_cli("rebuild")[1]
    items, of_somebody = owners()
    assert items == of_somebody > 50
    assert out.startswith(f"Decoded {items:,} items again into ")
    assert len(sandbox.requests) == asked
    assert not json.loads(run_cli("sync", "--json")[1])["mapping_pending"]

    Path("gramhouse.toml").unlink()
    run_cli("rebuild")
    assert re.match(r"Compacted data/warehouse\.duckdb: \S+ MB before, \S+ MB now\.\n", run_cli("compact")[1])
    with pytest.raises(duckdb.BinderException):
        owners()
