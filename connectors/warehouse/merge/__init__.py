"""Landed pages become rows, set by set, in one transaction."""
