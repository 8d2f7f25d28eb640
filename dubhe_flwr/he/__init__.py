"""Packed Paillier encryption, and sealed and signed delivery of its secret key."""
