"""Maintenance of a warehouse outside of scans: open, repair, compact, rebuild, delete old data."""
