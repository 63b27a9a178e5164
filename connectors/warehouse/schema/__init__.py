"""The field registry, and the values that fit no column."""
