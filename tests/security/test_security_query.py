"""Queries, also those of an agent, read the snapshot and no other file, even if the snapshot is malicious."""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import duckdb
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import TextContent

from connectors.warehouse.queries.export import export
from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from flows.cli.agent_tools import BYTES, Tools
from models.feeds import CATALOGUE
from models.files import QueryError, WarehouseUnusable
from tests.operator import Cli
from tests.warehouse.rig import POSTS, account, opened

SECRET = "the-other-file-7Zq4"
EVIL = "\x1b]0;title\x07\x1b[31m[red]\u202e"
_KEYED = "AS SELECT 'a' AS account_id, 'posts' AS surface, '1' AS media_id"
_PATHS = ("../up", "/etc/passwd", "a/b", "CON", "it's", "manifest.json", "~", "$HOME", "%2e%2e", "a\nb")
_NAMES = ("accounts", "media", "runs", "run_outcomes", "freshness", "quarantine", "completed_scans")

# Macros that replace functions, and terminal escape sequences in every text.
SHADOWING = (
    f"CREATE TABLE accounts AS SELECT '{EVIL}' AS ig_username, '{EVIL}' AS account_id",
    f"COMMENT ON TABLE accounts IS '{EVIL}'",
    f"COMMENT ON COLUMN accounts.ig_username IS '{EVIL}'",
    f'CREATE TABLE "{EVIL}" AS SELECT 1 AS "{EVIL}"',
    *(f"CREATE MACRO \"{name}\"(x) AS '{EVIL}'" for name in ("count", "max", "coalesce", "duckdb_tables")),
)
# Tables that are named like paths.
MISNAMED = (
    *(f'CREATE TABLE "{name}" AS SELECT 1 AS x' for name in _PATHS),
    *(f'CREATE TABLE "keyed {name}" {_KEYED}' for name in _PATHS),
)
DOTS = (f'CREATE TABLE ".." {_KEYED}',)


def write_hostile(folder: Path, statements: Sequence[str]) -> Path:
    """Write a snapshot with these tables."""
    snapshot = folder / "hostile.duckdb"
    with duckdb.connect(str(snapshot)) as db:
        db.execute("CREATE TABLE published AS SELECT now() AS snapshot_at, 'x' AS version")
        for statement in statements:
            db.execute(statement)
    return snapshot


def write_reading(folder: Path) -> Path:
    """Write a snapshot whose tables are views over another local file."""
    other = folder / "other.txt"
    other.write_text(SECRET)
    published = f"SELECT now() AS snapshot_at, content AS version FROM read_text('{other}')"
    views = [f"CREATE VIEW {name} AS SELECT * FROM read_text('{other}')" for name in _NAMES]
    return write_hostile(folder, ["DROP TABLE published", f"CREATE VIEW published AS {published}", *views])


# {0} is a folder of other files.
ESCAPES = [
    "FROM read_text('{0}/other.txt')",
    "FROM query('FROM read_text(''{0}/other.txt'')')",
    "FROM glob('{0}/*')",
    "FROM 's3://evil/x.parquet'",
    "ATTACH '{0}/other.duckdb' AS o",
    "INSTALL httpfs",
    "SET enable_external_access = true",
    "PRAGMA profile_output = '{0}/profile.json'",
    "SELECT getenv('HOME')",
    "/* SELECT 1 */ COPY t TO '{0}/out.csv'",
    "PREPARE p AS FROM read_text('{0}/other.txt'); EXECUTE p",
    "FROM folder",
    "CALL enable_profiling(save_location='{0}/profile.json', format='json'); SELECT 1",
    "SELECT 'é'; CHECKPOINT",
    "FROM checkpoint()",
    'FROM "enable_logging" /* a comment */ ()',
    'FROM "enable_logging"\u00a0()',
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM enable_logging()'))",
    "SELECT * FROM query('FROM enable_log' || 'ging()')",
    "FROM enable_profiling(format = 'json', save_location = '{0}/profile.json')",
    "SELECT ('x').write_log()",
    "EXPLAIN CALL enable_logging()",
    "WITH x AS (FROM t) INSERT INTO t FROM x",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("query")
    with duckdb.connect(str(folder / "s.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
    (folder / "other.txt").write_text(SECRET)
    with duckdb.connect(str(folder / "other.duckdb")) as db:
        db.execute(f"CREATE TABLE t AS SELECT '{SECRET}' AS a")
    return folder


@pytest.fixture
def snapshot(folder: Path) -> Iterator[Snapshot]:
    before = sorted(folder.iterdir())
    with open_snapshot(folder / "s.duckdb") as opened:
        yield opened
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("query", ESCAPES)
def test_a_query_reaches_nothing_but_the_snapshot(query: str, folder: Path, snapshot: Snapshot) -> None:
    with pytest.raises(QueryError) as caught:
        list(snapshot.user_query(query.replace("{0}", str(folder))).batches)
    assert SECRET not in str(caught.value)
    assert snapshot.db.execute("FROM t").fetchall() == [(1,)]


def test_a_hostile_snapshot_is_not_exported_with_another_file_in_it(tmp_path: Path) -> None:
    snapshot = write_reading(tmp_path)
    with pytest.raises(WarehouseUnusable) as caught:
        export(snapshot, tmp_path / "out")
    assert SECRET not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {snapshot.name, "other.txt"}


COMMANDS = (["status"], ["accounts"], ["runs"], ["quarantine"], ["describe"], ["describe", "accounts"], ["doctor"])
QUERIES = (["query", "FROM accounts"], ["query", f'FROM "{EVIL}"'])


@pytest.mark.parametrize("arguments", [*COMMANDS, *QUERIES, *([*words, "--json"] for words in COMMANDS)])
def test_a_hostile_snapshot_shows_no_other_file_and_does_not_steer_the_terminal(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    for write in (write_reading, partial(write_hostile, statements=SHADOWING)):
        snapshot = write(tmp_path)
        monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
        done = run_cli(*arguments)
        assert done.code in {0, 1, 2}
        assert done.text
        assert SECRET not in done.text
        assert "--json" in arguments or not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)
        assert "Traceback" not in done.stderr
        snapshot.unlink()


@pytest.mark.parametrize(("tables", "written"), [(MISNAMED, "%2E%2E%2Fup.parquet"), (DOTS, "")])
def test_names_of_tables_lead_to_no_other_folder(tmp_path: Path, tables: Sequence[str], written: str) -> None:
    around = tmp_path / "around"
    around.mkdir()
    snapshot = write_hostile(tmp_path, tables)
    with suppress(WarehouseUnusable):
        _, exported = export(snapshot, around / "out")
        files = [str(path.relative_to(around / "out")) for path in around.rglob("*") if path.is_file()]
        assert len(files) == len(exported)
        assert not written or written in files
    assert {path.name for path in around.iterdir()} <= {"out"}
    assert {path.name for path in tmp_path.iterdir()} == {snapshot.name, "around"}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    (folder / "other.txt").write_text(SECRET)
    with opened(folder) as rig:
        rig.scan(CATALOGUE, 0, [account()])
        rig.scan(POSTS, 1, [{"id": "1", "caption": SECRET, "like_count": 5}])
        return rig.publish(hide=["caption"], salt="salt")


async def call(client: Client, tool: str, **arguments: str) -> tuple[bool, str]:
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    assert isinstance(content, TextContent)
    return bool(result.is_error), content.text


@pytest.mark.e2e
def test_a_session_of_a_client(published: Path) -> None:
    async def session() -> None:
        command = ["-m", "flows.cli", "mcp", f"--snapshot={published}"]
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"describe", "query", "changes", "explain", "status"}
            assert await call(client, "query", sql="SELECT media_id, like_count, caption FROM media") == (
                False, '{"media_id":"1","like_count":5,"caption":null}\n',
            )  # fmt: skip
            for tool, arguments, says in (
                ("describe", {}, '"media_at"'),
                ("describe", {"table": "media"}, '"like_count"'),
                ("changes", {"since": "2026-01-01"}, '"runs"'),
                ("explain", {"what": "anna"}, '"k3Xw9QbT5mZa"'),
                ("status", {}, '"totals"'),
            ):
                is_error, text = await call(client, tool, **arguments)
                assert (is_error, says in text, SECRET in text) == (False, True, False), text
            is_error, text = await call(client, "query", sql="SELECT nothing FROM media")
            assert is_error
            assert '"nothing" not found' in text

    asyncio.run(session())


def test_an_agent_does_not_read_the_raw_store(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.scan(POSTS, 1, [{"id": "1", "caption": SECRET}])
        tools = Tools(str(rig.publish()))
    with pytest.raises(ToolError, match="raw_media and raw_versions are not in the snapshot"):
        asyncio.run(tools.query("SELECT payload FROM RAW_versions"))


@pytest.mark.parametrize("sql", ["FROM read_text('{0}/other.txt')", "FROM raw_media", "--output={0}/out", "-"])
def test_a_query_reads_nothing_but_what_is_published(published: Path, sql: str) -> None:
    before = sorted(published.parent.iterdir())
    with pytest.raises(ToolError) as refused:
        asyncio.run(Tools(str(published)).query(sql.format(published.parent)))
    assert SECRET not in str(refused.value)
    assert sorted(published.parent.iterdir()) == before


def test_lists_and_texts_of_a_long_answer_are_cut(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.run("run", 0)
        rig.scan(CATALOGUE, 0, [account()])
        rig.scan(POSTS, 1, [{"id": str(n), "caption": "word " * 200} for n in range(200)])
        for day in range(30):
            rig.scan(POSTS, 24 * day + 2, [{"id": "0", "caption": f"{day} {'word ' * 200}", "likes": day}])
        tools = Tools(str(rig.publish(hour=999)))
    for ask in (partial(tools.changes, "2026-01-01"), partial(tools.explain, "0")):
        text = asyncio.run(ask())
        assert len(text.encode()) <= BYTES
        assert "entries, texts" in json.loads(text)["shortened"]


def test_an_answer_that_is_long_or_takes_too_long_is_refused(published: Path) -> None:
    for query, seconds, why in (
        (f"SELECT repeat('x', {BYTES // 4}) FROM range(9)", 600, "more than 50,000 bytes"),
        ("SELECT count(*) FROM range(1000000000000)", 0.5, "no answer within 0.5 seconds"),
    ):
        with pytest.raises(ToolError, match=why):
            asyncio.run(Tools(str(published), seconds).query(query))
