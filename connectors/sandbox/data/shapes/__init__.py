"""The shapes in which items of media are served."""
