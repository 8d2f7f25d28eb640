"""FedEntOpt: an oracle that selects greedily and lets recent clients rest."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dubhe_lab.baselines.oracle import OracleSelector, greedy_selection
from dubhe_lab.baselines.roll_call import Past

_BUFFER_SHARE: Final = 0.5  # Q / N: the clients that rest


class FedEntOptSelector(OracleSelector):
    """Raises the entropy of the labels among clients that are not in a first-in-first-out buffer.

    The first client is random. With ``L`` the summed label counts of those chosen so far, the next
    one is the client m of largest ``H((L + l^(m)) / ||L + l^(m)||_1)``. The chosen ones enter the
    buffer, which holds the last Q. After Lutz et al. 2025, "Optimizing Federated Learning by
    Entropy-Based Client Selection", Algorithm 1 (https://arxiv.org/abs/2411.01240). The arguments
    are those of `OracleSelector`.

    The paper leaves open, or has as an experiment's setting:

    - Q: the paper's experiments have 0.5 N (Dirichlet clients) to 0.7 N (clients of two classes)
      and at most N - K. Here it is 0.5 N, with N the clients that are there in the round.
    - The buffer changes between rounds, not within one.
    - Nodes that leave keep their place in the buffer.
    """

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the choice among those who rested long enough."""
        most = len(aliases) - self.num_participants
        buffer = past.recent(min(round(_BUFFER_SHARE * len(aliases)), most))
        free = np.flatnonzero([alias not in buffer for alias in aliases])
        counts = self.label_counts[self.rows_of(aliases)[free]]
        # KL(p || uniform) = ln C - H(p), and H is what the paper maximises.
        return free[greedy_selection(counts, self.num_participants, rng)]
