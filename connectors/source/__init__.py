"""The API client. Only `client` uses the network; the other modules get their IO as arguments."""
