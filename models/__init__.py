"""What things are: values, declarations and decisions. Nothing in this room does IO."""
