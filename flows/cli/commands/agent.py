"""`gramhouse mcp`: the snapshot for an agent."""

from flows.cli.current import current_snapshot
from flows.cli.options import SnapshotFile
from flows.config.errors import SettingsError
from flows.config.settings import load


def mcp(*, snapshot: SnapshotFile = None) -> None:
    """Serve the snapshot to an agent, by the Model Context Protocol on standard input and output.

    Its tools are describe, query, changes, explain and status. They only read the snapshot, and what it hides stays
    hidden. An answer has at most 200 rows, and takes at most a minute.
    """
    path = current_snapshot(load(snapshot=snapshot))
    try:
        from flows.cli.agent_tools import build_server
    except ImportError as error:
        fix = "Fix: install gramhouse with its extra 'mcp' (docs/analyst.md)."
        raise SettingsError(f"`gramhouse mcp` needs a library that is not installed. {fix}") from error
    build_server(str(path)).run("stdio")
