"""The shared store: objects in a folder or a bucket, through which processes on several machines exchange data."""
