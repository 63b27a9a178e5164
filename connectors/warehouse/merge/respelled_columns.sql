-- Finds the columns of a table in which the new values of respelled items differ from the stored ones.
SELECT [{differ}]
FROM respelled AS r JOIN {decoded} AS d ON d._order_key = r.order_key JOIN core.{table} AS m ON {same};
