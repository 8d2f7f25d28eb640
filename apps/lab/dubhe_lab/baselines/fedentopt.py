"""FedEntOpt: a label oracle that selects greedily and lets recently selected clients rest."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dubhe_lab.baselines.oracle import OracleSelector, greedy_selection
from dubhe_lab.baselines.roll_call import Past

_BUFFER_SHARE: Final = 0.5  # Q / N, the share of clients that rest


class FedEntOptSelector(OracleSelector):
    """Maximises label entropy greedily over the clients outside a first-in-first-out buffer.

    The first client is random. If ``L`` is the sum of the label counts chosen so far, the next is
    the client m with the largest ``H((L + l^(m)) / ||L + l^(m)||_1)``. Chosen clients enter the
    buffer, which holds the last Q of them. After Lutz et al. 2025, "Optimizing Federated Learning
    by Entropy-Based Client Selection", Algorithm 1 (https://arxiv.org/abs/2411.01240). Takes the
    same arguments as `OracleSelector`.

    Choices the paper leaves open, or varies between experiments:

    - Q: the paper's experiments use 0.5 N (Dirichlet clients) to 0.7 N (clients with two classes),
      and at most N - K. Here it is 0.5 N, where N counts the clients connected in the round.
    - The buffer changes between rounds, not within one.
    - Nodes that leave keep their place in the buffer.
    """

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Select greedily among the clients outside the buffer."""
        most = len(aliases) - self.num_participants
        buffer = past.recent(min(round(_BUFFER_SHARE * len(aliases)), most))
        free = np.flatnonzero([alias not in buffer for alias in aliases])
        counts = self.label_counts[self.rows_of(aliases)[free]]
        # The paper maximises H(p), which minimises KL(p || uniform) = ln C - H(p).
        return free[greedy_selection(counts, self.num_participants, rng)]
