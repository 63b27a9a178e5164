"""The field registry, and values that could not be converted to their column's type."""
