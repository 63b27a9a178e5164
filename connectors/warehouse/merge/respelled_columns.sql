-- Finds the columns of a table in which the new values of respelled items differ from the stored ones; returns the
-- assignments to these columns.
SELECT list_filter([{differing}], lambda one: one IS NOT NULL)
FROM respelled AS r JOIN {decoded} AS d ON d._order_key = r.order_key JOIN core.{table} AS m ON {same};
