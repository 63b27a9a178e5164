"""The commands as a table: a new command is a function in flows/cli/commands, and a row here."""

from collections.abc import Mapping
from typing import NamedTuple

GROUPS = ("Start", "Operate", "Read", "Maintain")

# Group, module and name of a command; the first paragraph of its function's docstring; the arguments of an example.
_TABLE = """
Start demo demo | Run everything on this machine: a sandbox API, syncs, a first look. |
Start configuration init | Write a gramhouse.toml in which every setting is explained. |
Start configuration config | Print each setting with its value and where it is set; the key is masked. | --json
Start doctor doctor | Check configuration, API, warehouse, snapshot, Prefect: one line each. |
Start demo sandbox | Serve API v1 on this machine with generated data. | --accounts 200
Operate sync sync | Sync all that the API key can see, and publish a snapshot. | --surface stories
Operate sync backfill | Scan selected accounts again from the first page. | --account paper.market
Operate serving up | Start a Prefect server with its UI, and serve the deployments. | --port 4201
Operate status status | Show what is fresh, stale, expired, failed or interrupted, and why. | --json
Operate snapshot accounts | List accounts: status, token expiry and age of their media. | --expired
Operate snapshot runs | List recent runs: what they landed and how they ended. | --last 5
Read snapshot query | Run a SQL query on the snapshot, even during a sync. | "FROM runs LIMIT 5"
Read history changes | List what the last run, or the runs since then, found. | --since 2d
Read history explain | Show what is known of an item or account, in order of time. | paper.market
Read snapshot describe | List the snapshot's tables, views and macros, or the columns of one. | media
Read snapshot export | Export the snapshot as Parquet files. | parquet
Read snapshot report | Create a self-contained HTML report with charts and tables. | --account paper.market
Read snapshot mcp | Serve the snapshot to an agent, by the Model Context Protocol on standard input and output. |
Maintain maintenance publish | Merge landed pages and publish a snapshot, without requests. | --busy-wait 60
Maintain maintenance rebuild | Read raw store and quarantine again with the current mapping. | --dry-run
Maintain maintenance compact | Rewrite the warehouse file, compacted and sorted. |
Maintain maintenance forget | Erase an account everywhere; syncs do not import it again. | paper.market
Maintain snapshot quarantine | List records in quarantine, newest first. | --limit 5
"""


class Command(NamedTuple):
    """A command: its group and module, the first paragraph of its function's docstring, and an example's arguments.

    The function has the command's name. The module is imported only when the command is called.
    """

    group: str
    module: str
    help: str
    example: str


def _read(row: str) -> tuple[str, Command]:
    where, text, example = map(str.strip, row.split("|"))
    group, module, name = where.split()
    return name, Command(group, module, text, example)


COMMANDS: Mapping[str, Command] = dict(map(_read, _TABLE.strip().splitlines()))
