"""The two selections that benchmarks measure, and a federation of any size for each."""

from typing import Any, Final

from bench.recycled import RecycledNodes
from dubhe_flwr.protocol import Coordinator, Settings

__all__ = ["PACKAGES", "RULES", "server_and_nodes"]

PACKAGES: Final = ("dubhe-flwr", "phe", "gmpy2", "numpy")
"""Those on which the times of the protocol depend."""

_NUM_CLASSES: Final = 10
RULES: Final[dict[str, dict[str, Any]]] = {
    "paper": {"participation": "paper", "determination": "tries"},
    "default": {},
}


def server_and_nodes(
    rule: str,
    num_clients: int,
    num_real: int,
    *,
    key_bits: int,
    num_participants: int = 20,
    **given: Any,
) -> tuple[Coordinator, RecycledNodes]:
    """Return a server that selects by a rule, with H = 10 and the reference set of MNIST.

    Its nodes are the same for both rules.

    Parameters
    ----------
    rule : {"paper", "default"}
        The paper's rule, or calibrated participation with groups where these pay.
    num_clients : int
        ``N``.
    num_real : int
        Clients whose work is measured; all others are counted as they are on average.
    key_bits : int
        Size of the Paillier modulus.
    num_participants : int (default: 20)
        ``K``.
    **given
        More settings, as in `Settings`.

    Examples
    --------
    >>> server, nodes = server_and_nodes("paper", 100, 5, key_bits=512)
    >>> server.settings.tries, len(nodes.ids), nodes.num_real
    (10, 100, 5)
    """
    server = Coordinator(
        Settings(
            num_participants=num_participants,
            reference_set=(1, 2, _NUM_CLASSES),
            tries=10,
            key_bits=key_bits,
            max_clients=num_clients,
            seed=0,
            **RULES[rule],
            **given,
        )
    )
    nodes = RecycledNodes(
        num_clients, num_real, num_classes=_NUM_CLASSES, key_bits=key_bits, seed=0
    )
    return server, nodes
