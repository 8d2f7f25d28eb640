"""Power-of-Choice: random candidates evaluate the current model; the highest losses train."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dubhe_lab.baselines.losses import LossSelector
from dubhe_lab.baselines.roll_call import Past

_CANDIDATES_PER_PARTICIPANT: Final = 2  # d / K


class PowerOfChoiceSelector(LossSelector):
    """Asks d candidates for their loss ``F_k(w)`` on the current model and chooses the K highest.

    Candidates are drawn without replacement, client k with probability ``p_k = n_k / n``, its share
    of all samples. Ties are broken at random. After Cho, Wang and Joshi, "Client Selection in
    Federated Learning: Convergence Analysis and Power-of-Choice Selection Strategies", 2020
    (https://arxiv.org/abs/2010.01243), pi_pow-d.

    Choices the paper leaves open, or varies between experiments:

    - d: the paper's experiments vary it from K up. Here it is min(2 K, N), as in HiCS-FL's code
      (https://arxiv.org/abs/2310.00198), so a round costs up to 2 K evaluations.
    - Candidates are drawn uniformly, since all clients in an experiment have the same number of
      samples.
    - A candidate that does not answer is chosen only if fewer than K answer: the missing places are
      then filled at random.

    Parameters
    ----------
    num_participants : int
        ``K``.
    seed : int, optional (default: from the operating system)
        Fixes candidates and ties.

    Examples
    --------
    >>> from dubhe_lab.baselines.roll_call import Report
    >>> losses = {"0": 0.3, "1": 1.2, "3": 0.9, "4": 0.1}  # of the candidates in the first round
    >>> past = Past(reports={alias: Report(1, loss, loss) for alias, loss in losses.items()})
    >>> selector = PowerOfChoiceSelector(2, seed=7)
    >>> selector.choose(["0", "1", "2", "3", "4"], past, np.random.default_rng(0)).tolist()
    [1, 3]
    """

    def candidates(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return d clients, drawn uniformly."""
        del past
        number = min(_CANDIDATES_PER_PARTICIPANT * self.num_participants, len(aliases))
        return rng.choice(len(aliases), number, replace=False)

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return this round's candidates with the highest losses, highest first."""
        losses = np.full(len(aliases), -np.inf)
        for index, alias in enumerate(aliases):
            report = past.reports.get(alias)
            if report is not None and report.server_round == past.num_rounds + 1:
                losses[index] = report.loss
        order = rng.permutation(len(aliases))  # so that ties are broken at random
        return order[np.argsort(-losses[order], kind="stable")[: self.num_participants]]
