-- Updates these columns: their values are not compared, or are equal but spelled differently. Writes {items} or a
-- child table.
UPDATE core.{table} AS m SET {assignments}
FROM respelled AS r JOIN {decoded} AS d ON d._order_key = r.order_key WHERE {same};
