"""What is done to a warehouse beside its runs: open, repair, compact, rebuild, retry quarantine, tidy."""
