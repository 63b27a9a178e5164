"""The fields of media items: their JSON types, column names, mapping and tables. No IO."""
