"""The tables of gramhouse 0.2.0, from which every upgrade begins."""

revision = "0021"
down_revision = None


def upgrade() -> None:
    """Change nothing: a new file is created from the declarations, with the latest revision."""
