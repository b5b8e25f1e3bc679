"""Tables of the sources: the published value, ours, and a verdict."""
