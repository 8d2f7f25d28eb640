"""A Flower app that times its rounds."""
