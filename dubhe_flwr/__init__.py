"""Private, unbiased client selection for Flower: Dubhe (ICPP 2021) and beyond."""
