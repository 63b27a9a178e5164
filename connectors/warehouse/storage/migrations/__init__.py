"""The ways from an older gramhouse's tables to this one's; Alembic runs them."""
