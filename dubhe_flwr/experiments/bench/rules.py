"""The two selections that benchmarks measure: the paper's rule, and what comes by default."""

from typing import Any, Final

from dubhe_flwr.protocol import Coordinator, Settings

__all__ = ["NUM_CLASSES", "RULES", "coordinator"]

NUM_CLASSES: Final = 10
RULES: Final[dict[str, dict[str, Any]]] = {
    "paper": {"participation": "paper", "determination": "tries"},
    "default": {},
}


def coordinator(
    rule: str, num_clients: int, *, key_bits: int, num_participants: int = 20, **given: Any
) -> Coordinator:
    """Return a server that selects by a rule, with H = 10 and the reference set of MNIST.

    Parameters
    ----------
    rule : {"paper", "default"}
        The paper's rule, or calibrated participation with groups where these pay.
    num_clients : int
        ``N``.
    key_bits : int
        Size of the Paillier modulus.
    num_participants : int (default: 20)
        ``K``.
    **given
        More settings, as in `Settings`.

    Examples
    --------
    >>> coordinator("paper", 100, key_bits=2048).settings.tries
    10
    """
    return Coordinator(
        Settings(
            num_participants=num_participants,
            reference_set=(1, 2, NUM_CLASSES),
            tries=10,
            key_bits=key_bits,
            max_clients=num_clients,
            seed=0,
            **RULES[rule],
            **given,
        )
    )
