"""What things are: values, declarations and decisions. Nothing here does IO."""
