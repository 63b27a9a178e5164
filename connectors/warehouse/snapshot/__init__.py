"""The analysts' file: published, read, queried and exported."""
