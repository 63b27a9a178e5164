"""What the pipeline knows about itself: one SQLite file beside the warehouse, by SQLAlchemy Core."""
