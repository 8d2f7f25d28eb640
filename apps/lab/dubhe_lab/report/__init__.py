"""Results of experiments as JSON, and figures made from them."""
