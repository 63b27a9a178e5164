"""The commands as a table: a new command is a function in flows/cli/commands, and a row here."""

from collections.abc import Mapping
from dataclasses import dataclass

GROUPS = ("Start", "Operate", "Read", "Maintain")


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its group and module, the first paragraph of its function's docstring, and an example's arguments.

    The function has the command's name. The module is imported only when the command is called.
    """

    group: str
    module: str
    help: str
    example: str


COMMANDS: Mapping[str, Command] = {
    "demo": Command("Start", "demo", "Run everything on this machine: a sandbox API, syncs, a first look.", ""),
    "init": Command("Start", "configuration", "Write a gramhouse.toml in which every setting is explained.", ""),
    "config": Command(
        "Start", "configuration", "Print each setting with its value and where it is set; the key is masked.", "--json"
    ),
    "doctor": Command("Start", "doctor", "Check configuration, API, warehouse, snapshot, Prefect: one line each.", ""),
    "sandbox": Command("Start", "demo", "Serve API v1 on this machine with generated data.", "--accounts 200"),
    "sync": Command(
        "Operate", "sync", "Sync all that the API key can see, and publish a snapshot.", "--surface stories"
    ),
    "backfill": Command(
        "Operate", "sync", "Scan selected accounts again from the first page.", "--account paper.market"
    ),
    "up": Command(
        "Operate", "serving", "Start a Prefect server with its UI, and serve the deployments.", "--port 4201"
    ),
    "status": Command(
        "Operate", "status", "Show what is fresh, stale, expired, failed or interrupted, and why.", "--json"
    ),
    "accounts": Command(
        "Operate", "listing", "List accounts: status, token expiry and age of their media.", "--expired"
    ),
    "runs": Command("Operate", "listing", "List recent runs: what they landed and how they ended.", "--last 5"),
    "query": Command("Read", "snapshot", "Run a SQL query on the snapshot, even during a sync.", '"FROM runs LIMIT 5"'),
    "changes": Command("Read", "history", "List what the last run, or the runs since then, found.", "--since 2d"),
    "explain": Command(
        "Read", "history", "Show what is known of an item or account, in order of time.", "paper.market"
    ),
    "describe": Command(
        "Read", "snapshot", "List the snapshot's tables, views and macros, or the columns of one.", "media"
    ),
    "export": Command("Read", "snapshot", "Export the snapshot as Parquet files.", "parquet"),
    "report": Command(
        "Read", "snapshot", "Create a self-contained HTML report with charts and tables.", "--account paper.market"
    ),
    "mcp": Command(
        "Read",
        "agent",
        "Serve the snapshot to an agent, by the Model Context Protocol on standard input and output.",
        "",
    ),
    "publish": Command(
        "Maintain", "maintenance", "Merge landed pages and publish a snapshot, without requests.", "--busy-wait 60"
    ),
    "rebuild": Command(
        "Maintain", "maintenance", "Read raw store and quarantine again with the current mapping.", "--dry-run"
    ),
    "compact": Command("Maintain", "maintenance", "Rewrite the warehouse file, compacted and sorted.", ""),
    "forget": Command(
        "Maintain", "maintenance", "Erase an account everywhere; syncs do not import it again.", "paper.market"
    ),
    "quarantine": Command("Maintain", "listing", "List records in quarantine, newest first.", "--limit 5"),
}
