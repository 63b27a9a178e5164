"""The API client. Only `client` and `transport` use the network; the other modules get their IO as arguments."""
