"""The messages between the server and the nodes, and what both sides derive from them."""
