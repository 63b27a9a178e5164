"""The raw store: every version of every media item exactly as received, in numbered Parquet parts."""
