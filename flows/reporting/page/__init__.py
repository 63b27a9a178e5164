"""The report: one self-contained HTML page made from the snapshot, without script and without any request."""
