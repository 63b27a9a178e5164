"""`gramhouse mcp`: an agent reads the snapshot, as it is published, and nothing else."""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import TextContent

from flows.cli.agent_tools import BYTES, Tools
from tests.warehouse.days import POSTS, account, opened_days

SECRET = "the-other-file-7Zq4"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    (folder / "other.txt").write_text(SECRET)
    with opened_days(folder) as days:
        days.catalogue(0, [account()])
        days.scan(POSTS, 1, [{"id": "1", "caption": SECRET, "like_count": 5}])
        return days.publish(hide=["caption"], salt="salt")


async def call(client: Client, tool: str, **arguments: str) -> tuple[bool, str]:
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    assert isinstance(content, TextContent)
    return bool(result.is_error), content.text


@pytest.mark.e2e
def test_a_session_of_a_client(snapshot: Path) -> None:
    async def session() -> None:
        command = ["-m", "flows.cli", "mcp", f"--snapshot={snapshot}"]
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


# Beside what tests/security/test_security_query.py asks.
@pytest.mark.parametrize("sql", ["FROM read_text('{0}/other.txt')", "FROM raw_media", "--output={0}/out", "-"])
def test_a_query_reads_nothing_but_what_is_published(snapshot: Path, sql: str) -> None:
    before = sorted(snapshot.parent.iterdir())
    with pytest.raises(ToolError) as refused:
        asyncio.run(Tools(str(snapshot)).query(sql.format(snapshot.parent)))
    assert SECRET not in str(refused.value)
    assert sorted(snapshot.parent.iterdir()) == before


def test_an_answer_that_is_long_or_takes_too_long_is_refused(snapshot: Path) -> None:
    for query, why in (
        (f"SELECT repeat('x', {BYTES // 4}) FROM range(9)", "more than 50,000 bytes"),
        ("SELECT count(*) FROM range(1000000000000)", "no answer within 2 seconds"),
    ):
        with pytest.raises(ToolError, match=why):
            asyncio.run(Tools(str(snapshot), seconds=2).query(query))
