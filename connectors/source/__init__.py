"""Reading the API. Only `client` and `transport` use the network; the rest is pure, or awaits what it is passed."""
