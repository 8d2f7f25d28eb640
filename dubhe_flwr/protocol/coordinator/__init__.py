"""The server's side of the protocol: a state machine from one stage to the next."""
