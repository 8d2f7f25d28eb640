"""The node's side of the protocol: what it keeps, what it answers, and what it refuses."""
