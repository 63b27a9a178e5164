"""Converts the bytes of pages to typed columns: splits pages into items, decodes items, reads columns from cells."""
