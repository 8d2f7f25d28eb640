"""What the adapters for Flower's two strategy APIs and for its ClientApps share."""
