"""The paper, reproduced: cells that are measured once, and what each experiment makes of them."""
