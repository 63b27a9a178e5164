"""The merge: landed pages become rows, in one transaction for each batch."""
