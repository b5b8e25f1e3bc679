"""Public functions of robots, and the one way from a call to its kernel."""
