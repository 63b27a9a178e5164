"""A run's report as text, JSON, Markdown and HTML."""
