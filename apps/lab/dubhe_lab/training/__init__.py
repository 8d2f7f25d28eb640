"""Local training with torch: a Flower client, and the training loop and models it uses."""
