"""No change of tables. An older gramhouse, which creates the snapshot's views itself, fails if the file has them."""

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Change nothing: publishing creates the views."""
