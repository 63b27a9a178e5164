"""Value types, declarations and decisions. Nothing here does IO."""
