"""The mathematics of Dubhe in pure numpy: no Flower, no torch, no I/O."""
