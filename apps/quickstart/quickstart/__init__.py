"""Flower quickstart with Dubhe."""
