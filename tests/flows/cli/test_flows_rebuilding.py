"""The commands `gramhouse rebuild` and `gramhouse compact`."""

import re
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.settings import SandboxSettings
from tests.api.server import Api
from tests.operator import KEY, Operator

OWNER = '[mapping.columns.owner]\npaths = ["$.owner.id", "$.user.pk"]\n'
OWNERS = "SELECT count(*), count(owner) FROM media"


def test_a_new_mapping_is_applied_without_asking_the_api(tmp_path: Path) -> None:
    file, api = tmp_path / "gramhouse.toml", Api(SandboxSettings(accounts=6, posts=12, seed=11))
    with api.serve():
        service = {"GRAMHOUSE_BASE_URL": api.url, "GRAMHOUSE_API_KEY": KEY}
        operator = Operator(tmp_path, service, here=True, cwd=tmp_path)
        assert not operator.sync()["mapping_pending"]
        file.write_text(OWNER, encoding="utf-8")
        api.day = 1
        assert "Fix: `gramhouse rebuild` applies the current one." in operator.run("sync").text
        asked = len(api.requests)
        out = operator.run("rebuild").stdout
        [(items, of_somebody)] = operator.ask(OWNERS)
        assert items == of_somebody > 50
        assert out.startswith(f"Decoded {items:,} items again into ")
        assert len(api.requests) == asked
        assert not operator.sync()["mapping_pending"]
    file.unlink()
    operator.run("rebuild")
    assert re.match(r"Compacted \S+/warehouse\.duckdb: \S+ MB before, \S+ MB now\.\n", operator.run("compact").stdout)
    with pytest.raises(duckdb.BinderException):
        operator.ask(OWNERS)
