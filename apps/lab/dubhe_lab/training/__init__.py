"""Local training with torch: a Flower client, and the loop and models it is made of."""
