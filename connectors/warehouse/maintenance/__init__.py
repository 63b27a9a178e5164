"""Maintenance of a warehouse outside of scans: open, repair, compact, rebuild, retry quarantine, delete old data."""
