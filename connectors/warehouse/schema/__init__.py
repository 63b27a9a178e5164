"""The registry of fields, and the values that fit no column."""
