"""Migrations from the tables of older gramhouse versions; Alembic runs them."""
