"""Addresses of media, which are signed anew for every request: the newest ones are kept, and are no version.

They are updated in place, by rowid: that takes a tenth of what rewriting the rows would take (docs/decisions/0033).
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from connectors.warehouse.connection import duck, value
from connectors.warehouse.ingest.cells import decoded_children
from connectors.warehouse.quoting import quoted
from models.mapping import Mapping
from models.sheets import Part, Sheet, part_of

# Stored items of a slice that came with other bytes, and with neither another content nor other counts.
_RESIGNED = """
CREATE OR REPLACE TEMP TABLE media_resigned AS
WITH last AS (
    SELECT account_id, surface, media_id, max(_place) AS place, arg_max(payload_hash, _place) AS payload_hash
    FROM media_decoded WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    GROUP BY account_id, surface, media_id
)
SELECT l.account_id, l.surface, l.media_id, l.place, s.stored
FROM last AS l JOIN media_stored AS s USING (account_id, surface, media_id)
ANTI JOIN (FROM media_touched WHERE news > 0) USING (account_id, surface, media_id)
WHERE s.payload_hash IS DISTINCT FROM l.payload_hash
"""


def addresses(sheet: Sheet, mapping: Mapping) -> list[str]:
    """Return the columns of a sheet that hold addresses of media."""
    return [column.name for column in sheet.columns if part_of(column, mapping) is Part.ADDRESS]


def fold_addresses(connection: Connection, mapping: Mapping, media: Sheet, children: Sequence[Sheet]) -> None:
    """Keep the addresses, and the hash, of stored items that came with nothing else that is new.

    Needs `media_touched`, `media_stored` and the decoded rows; in the open transaction, before rows are rewritten.
    """
    db = duck(connection)
    db.execute(_RESIGNED)
    if not value(db, "SELECT EXISTS (FROM media_resigned)"):
        return
    names = [quoted(name) for name in (*addresses(media, mapping), "payload_hash")]
    db.execute(
        f"UPDATE core.media AS m SET {', '.join(f'{name} = d.{name}' for name in names)}"  # noqa: S608 - quoted
        " FROM media_resigned AS r JOIN media_decoded AS d ON d._place = r.place WHERE m.rowid = r.stored"
    )
    for sheet in children:
        if names := [quoted(name) for name in addresses(sheet, mapping)]:
            db.execute(
                f"UPDATE core.{quoted(sheet.table)} AS m"  # noqa: S608 - quoted
                f" SET {', '.join(f'{name} = d.{name}' for name in names)}"
                f" FROM media_resigned AS r JOIN {decoded_children(sheet)} AS d USING (place)"
                " WHERE m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id"
                " AND m.position = d.position"
            )
