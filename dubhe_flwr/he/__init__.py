"""Packed Paillier encryption, additive pads, and sealed and signed delivery of keys."""
