"""Packed Paillier encryption, and the sealed and signed delivery of its secret key."""
