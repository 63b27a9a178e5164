"""The raw store: every version of every media item exactly as it came, in numbered Parquet parts."""
