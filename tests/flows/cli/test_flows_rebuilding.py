"""The command `gramhouse rebuild`, and the raw store that it reads."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from models.views import views
from tests.cli_runner import Cli
from tests.odd_api.api import OddApi

WAREHOUSE = Path("data/warehouse.duckdb")
SNAPSHOT = Path("data/analytics.duckdb")


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[OddApi]:
    sandbox = OddApi(SandboxSettings(accounts=6, posts=12, seed=11))
    with in_thread(sandbox) as url:
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", url)
        monkeypatch.setenv("GRAMHOUSE_API_KEY", "sandbox-demo-key")
        yield sandbox


def snapshot() -> dict[str, list[tuple[object, ...]]]:
    """Every promised table as analysts read it; all but the moment of publishing, and columns with addresses of media.

    After a rebuild the addresses are those of an item's last change, until the next sync brings the newest ones.
    """
    kept = "SELECT COLUMNS(name -> name NOT IN ('media_url', 'thumbnail_url', 'children')) FROM"
    with duckdb.connect(str(SNAPSHOT), read_only=True) as db:
        found = db.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()
        return {
            name: db.execute(f"DESCRIBE {name}").fetchall() + sorted(db.execute(f"{kept} {name}").fetchall(), key=repr)
            for (name,) in found
            if name != "published" and (name not in views() or views()[name].is_stored)
        }


def columns(table: str) -> int:
    with duckdb.connect(str(SNAPSHOT), read_only=True) as db:
        return len(db.execute(f"DESCRIBE {table}").fetchall())


OWNER = """
[mapping.columns.owner]
paths = ["$.owner.id", "$.user.pk"]
"""


def owners() -> tuple[int, int]:
    with duckdb.connect(str(SNAPSHOT), read_only=True) as db:
        items, of_somebody = db.execute("SELECT count(*), count(owner) FROM media").fetchall()[0]
        return int(items), int(of_somebody)


def test_a_new_mapping_is_applied_without_asking_the_api(run_cli: Cli, sandbox: OddApi) -> None:
    assert not json.loads(run_cli("sync", "--json")[1])["mapping_pending"]
    Path("gramhouse.toml").write_text(OWNER, encoding="utf-8")
    sandbox.day = 1
    assert "Fix: `gramhouse rebuild` applies the current one." in run_cli("sync")[1]
    asked = len(sandbox.log.entries)
    out = run_cli("rebuild")[1]
    items, of_somebody = owners()
    assert items == of_somebody > 50
    assert out.startswith(f"Decoded {items:,} items again into ")
    assert len(sandbox.log.entries) == asked
    assert not json.loads(run_cli("sync", "--json")[1])["mapping_pending"]

    Path("gramhouse.toml").unlink()
    run_cli("rebuild")
    with pytest.raises(duckdb.BinderException):
        owners()


@pytest.mark.usefixtures("sandbox")
def test_a_raw_store_that_lacks_a_part_is_refused_in_one_line(run_cli: Cli) -> None:
    def refused(*arguments: str) -> str:
        code, out, err = run_cli(*arguments)
        assert (code, out) == (1, "")
        return err.splitlines()[-1]

    assert "There is no warehouse" in refused("rebuild")
    run_cli("sync")
    (part, *_) = sorted(Path("data/raw").rglob("*.parquet"))
    whole = part.read_bytes()
    part.unlink()
    before = WAREHOUSE.read_bytes()
    for command in ("rebuild", "sync", "compact"):
        message = refused(command)
        assert f"lacks {part.name}" in message
        assert "GRAMHOUSE_RAW" in message
    assert WAREHOUSE.read_bytes() == before
    part.write_bytes(whole)
    run_cli("rebuild")
