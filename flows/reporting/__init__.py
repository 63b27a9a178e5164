"""What a run did, in words, JSON, Markdown and HTML."""
