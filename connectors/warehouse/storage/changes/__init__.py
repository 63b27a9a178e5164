"""Changes of `tables.sql` after schema 1, oldest first, one file each: `0002_why.sql` leads from schema 1 to schema 2.

A file runs in one transaction with the new schema number. It alters tables first and fills columns then, because DuckDB
cannot alter a table that the same transaction has updated, and adds no NOT NULL columns.
"""
