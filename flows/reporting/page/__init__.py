"""The report: one self-contained HTML page generated from the snapshot, without scripts and external requests."""
