"""The numbers that the paper gives, each with its place there."""

from typing import Final

__all__ = [
    "FEMNIST_ACCURACY",
    "GREEDY_EXTRA_TIME",
    "OVERHEAD",
    "REDUCTION",
    "REGISTRY_SHARES",
    "TABLE_2",
]

REDUCTION: Final = 0.644
"""Section 6.3.1: by how much ``||p_o - p_u||_1`` falls against random selection, at 10/1.5."""

TABLE_2: Final[dict[str, dict[str, float]]] = {
    "EMD*": {"1": 0.2946, "2": 0.2588, "5": 0.2176, "10": 0.1971, "20": 0.1750, "opt": 0.0144},
    "MNIST": {"1": 0.9662, "2": 0.9668, "5": 0.9665, "10": 0.9684, "20": 0.9678, "opt": 0.9694},
    "CIFAR10": {"1": 0.4300, "2": 0.4518, "5": 0.4486, "10": 0.4441, "20": 0.4577, "opt": 0.5295},
}
"""Table 2: distance and accuracies for each number of tries H, and for greedy selection."""

REGISTRY_SHARES: Final[dict[int, float]] = {8: 0.0753, 9: 0.0632}
"""Section 6.3.3: shares of classes in the selected data, at 10/1.5 with N = 1000."""

FEMNIST_ACCURACY: Final[dict[str, float]] = {"random": 0.310, "dubhe-paper": 0.364, "greedy": 0.374}
"""Section 6.2: test accuracy on FEMNIST."""

OVERHEAD: Final[dict[str, tuple[str, str, str, str]]] = {
    "registry of 56": ("0.47-0.49 KB", "29.6-31.28 KB", "6.9 s", "1.9 s"),
    "registry of 53": ("0.47-0.49 KB", "29.6-31.28 KB", "", ""),
    "p_l of 52 classes": ("0.68 KB", "29.1 KB", "6.8 s", "1.7 s"),
}
"""Section 6.4: plaintext, ciphertext, encryption, decryption; keys of 2048 bits."""

GREEDY_EXTRA_TIME: Final[dict[int, float]] = {1000: 0.13, 8962: 1.69}
"""Section 6.1: time of greedy selection beside all other time, by number of clients."""
