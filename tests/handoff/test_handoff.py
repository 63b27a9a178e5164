"""What others build on a snapshot: dbt's sources with the keys and joins stated there, its models, and the notebook."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from jinja2 import Template

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.sql import literal
from flows.cli.dbt import sources
from models.views import Relation, views
from tests.harness.scenario import generate
from tests.harness.simulation import simulate
from tests.operator import run_here

EXAMPLE = Path(__file__).parents[2] / "docs" / "dbt"
DBT = Path(sys.prefix) / "dbt" / "bin" / "dbt"


@pytest.fixture
def described(snapshot: Path) -> str:
    code, message, err = run_here("describe", "--format", "dbt", "--snapshot", str(snapshot))
    assert (code, err) == (0, "")
    return message


def test_every_table_column_comment_type_key_and_join_is_in_the_sources(described: str, snapshot: Path) -> None:
    [source] = yaml.safe_load(described)["sources"]
    assert (source["database"], source["schema"]) == ("gramhouse", "main")
    tables: dict[str, dict[str, Any]] = {table["name"]: table for table in source["tables"]}
    fields = {"type": "data_type", "comment": "description", "name": "name"}
    listed = {
        name: (table["description"], [{to: column[of] for to, of in fields.items()} for column in table["columns"]])
        for name, table in tables.items()
    }
    with open_snapshot(snapshot) as opened:
        relations = [one for one in opened.relations() if one["kind"] != "macro"]
        assert listed == {one["name"]: (one["comment"], opened.columns(one["name"])) for one in relations}
    assert tables.keys() >= views().keys()
    for name, table in tables.items():
        relation = views().get(name, views()["media_children"]).relation
        kinds = [kind for test in table["data_tests"] for kind in test]
        joins = sum(join.always for join in relation.joins)
        assert kinds == ["unique"] * bool(relation.key) + ["relationships"] * joins
        required = {column["name"] for column in table["columns"] if column.get("data_tests") == ["not_null"]}
        assert required == set(relation.key) - set(relation.nullable)
    [warning] = [test["unique"] for test in tables["media_history"]["data_tests"] if "unique" in test]
    assert warning["config"] == {"severity": "warn"}
    fresh = tables["published"]["config"]
    assert fresh["freshness"] == {"warn_after": {"count": 36, "period": "hour"}}
    assert fresh["loaded_at_field"] in {column["name"] for column in tables["published"]["columns"]}


def test_names_from_the_api_are_escaped_for_templates_and_terminals() -> None:
    hostile = "{{ env_var('HOME') }} {% do x %} {# y #} {{{ \x1b[31m \u202e"
    with duckdb.connect() as db:
        db.execute("CREATE TABLE published AS SELECT 1.5 AS stale_after; CREATE TABLE media_odd (odd VARCHAR)")
        for what in ("TABLE media_odd", "COLUMN media_odd.odd"):
            db.execute(f"COMMENT ON {what} IS {literal(hostile)}")
        text = sources(Snapshot(db))
    assert not any(sign in text for sign in ("{{", "{%", "{#", "\x1b"))
    assert text.isascii()
    [source] = yaml.safe_load(text)["sources"]
    assert "env_var('HOME')" in source["tables"][0]["columns"][0]["description"]


def _broken(db: duckdb.DuckDBPyConnection, name: str, relation: Relation) -> list[str]:
    """Return what of a table's key and joins does not hold."""
    asked = {
        join.table: f"FROM {name} ANTI JOIN {join.table} USING ({', '.join(join.columns)})"
        for join in relation.joins
        if join.always
    }
    if relation.key:
        asked["key"] = f"SELECT 1 FROM {name} GROUP BY {', '.join(relation.key)} HAVING count(*) > 1"
    return [f"{name}: {what}" for what, query in asked.items() if db.execute(query).fetchall()]


def test_keys_are_unique_and_joins_find_their_rows(snapshot: Path) -> None:
    with duckdb.connect(str(snapshot), read_only=True) as db:
        assert [each for view in views().values() for each in _broken(db, view.name, view.relation)] == []
        for name in ("media", "media_superseded", "media_children", "post_growth"):
            assert len(db.execute(f"FROM {name} LIMIT 3").fetchall()) > 2, name
        assert _broken(db, "media", Relation(("account_id",)))


NAMES = ("media_items", "media_versions")


def check_models(db: duckdb.DuckDBPyConnection, snapshot: Path) -> None:
    """Raise AssertionError unless the models in this database have the rows of a full refresh from the snapshot."""
    db.execute(f"ATTACH '{snapshot}' AS gramhouse (READ_ONLY)")
    for name in NAMES:
        # As dbt renders it.
        query = Template((EXAMPLE / "models" / f"{name}.sql").read_text(encoding="utf-8")).render(
            source="{}.main.{}".format, this=name, config=lambda **_: "", is_incremental=bool
        )
        db.execute(f"CREATE OR REPLACE TEMP TABLE refreshed AS {query}")
        compare = f"(FROM {name} EXCEPT ALL FROM refreshed) UNION ALL (FROM refreshed EXCEPT ALL FROM {name})"
        rows = db.execute(compare).fetchall()
        assert not rows, f"{name}: {len(rows)} rows differ from a full refresh, such as {rows[0]}"
    db.execute("DETACH gramhouse")


@pytest.mark.long
@pytest.mark.skipif(not DBT.exists(), reason="`make long` creates the environment of dbt")
def test_incremental_models_equal_a_full_refresh_on_each_of_thirty_days(described: str, tmp_path: Path) -> None:
    project, loaded = tmp_path / "project", list[Path]()
    unwanted = shutil.ignore_patterns("target", "logs", "*.duckdb", "gramhouse_sources.yml")
    shutil.copytree(EXAMPLE, project, ignore=unwanted)
    (project / "models" / "gramhouse_sources.yml").write_text(described, encoding="utf-8")

    def load(snapshot: Path) -> None:
        loaded.append(snapshot)
        command = [str(DBT), "--no-use-colors", "run", "--select", *NAMES, "--profiles-dir", "."]
        env = {**os.environ, "GRAMHOUSE_SNAPSHOT": str(snapshot)}
        done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        with duckdb.connect(str(project / "models.duckdb")) as db:
            check_models(db, snapshot)

    # Runs are killed, fail, are repeated and come late; a day without a new snapshot has that of the day before. But no
    # files are restored and no account is forgotten: then dbt's own tables are of a time that is no more.
    scenario = generate(3, 30)
    days = tuple(replace(day, restores=None, upkeep=()) for day in scenario.days)
    result = simulate(replace(scenario, days=days), load)
    assert result.violation is None
    assert len(loaded) >= 30
    assert result.counts["ended"] < result.counts["days"]


NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
CELLS = json.loads((NOTEBOOKS / "first-look.ipynb").read_text(encoding="utf-8"))["cells"]
CHARTS = ("likes-by-day.png", "best-hours.png", "growth.png")
QUERIES = [
    "\n".join(line for line in each.splitlines() if not line.startswith("--")).strip().rstrip(";")
    for each in (NOTEBOOKS / "first-look.sql").read_text(encoding="utf-8").split("\n\n")[1:]
]


@pytest.mark.parametrize("number", range(3), ids=CHARTS)
def test_the_plain_sql_is_the_charts_own_and_answers(number: int, snapshot: Path) -> None:
    [cell] = ["".join(cell["source"]) for cell in CELLS if QUERIES[number] in "".join(cell["source"])]
    assert "plt.show()" in cell
    with duckdb.connect(str(snapshot), read_only=True) as db:
        assert db.execute(QUERIES[number]).fetchall()


@pytest.mark.long
def test_every_cell_runs_and_draws_its_chart_with_either_library(snapshot: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="`make test` installs it")
    command = [sys.executable, "-W", "error", str(NOTEBOOKS / "run.py"), str(tmp_path), "--frames", "polars", "pandas"]
    env = {**os.environ, "GRAMHOUSE_SNAPSHOT": str(snapshot)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(CHARTS)
    pictures = [(tmp_path / name).read_bytes() for name in CHARTS]
    assert all(each.startswith(b"\x89PNG\r\n\x1a\n") and len(each) > 5000 for each in pictures)
