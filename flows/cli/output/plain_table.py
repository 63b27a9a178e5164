"""Tables without lines."""

from collections.abc import Mapping

from rich.table import Table


def plain_table(columns: Mapping[str, str]) -> Table:
    """Return a table without lines; `columns` maps names to `right` or an empty string."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, side in columns.items():
        # On a narrow terminal only the id is truncated; --json prints all of it.
        no_wrap = name != "account id"
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=no_wrap, overflow="ellipsis")
    return table
