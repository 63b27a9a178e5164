"""The API, asked: `client` is the only door to the network; the rest is pure, or awaits what it is handed."""
