"""The raw store: the bytes of every version of every item, in immutable Parquet files."""
