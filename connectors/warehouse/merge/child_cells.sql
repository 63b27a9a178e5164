-- Keeps the decoded rows of a child table.
CREATE OR REPLACE TEMP TABLE {decoded} AS {rows};
