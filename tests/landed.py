"""Reads what has landed and is not merged."""

from connectors.state.database import open_state_read_only, state_path
from connectors.state.inbox import Inbox
from connectors.warehouse.storage.connection import Connection
from models.page_commit import Landing


def unmerged(connection: Connection) -> list[Landing]:
    """Return the landings that are not merged, in their order."""
    with open_state_read_only(state_path(connection.path)) as state:
        return [] if state is None else list(Inbox(state).after(0))
