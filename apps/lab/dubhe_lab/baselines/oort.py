"""Oort: clients with high losses train again, alongside clients that never trained."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_lab.baselines.losses import LossSelector
from dubhe_lab.baselines.roll_call import Past

_CLIP: Final = 0.98  # utilities are clipped at this quantile
_CUT_OFF: Final = 0.7  # c
_UNCERTAINTY: Final = 0.1
_EXPLORATION: Final = 0.9  # epsilon before the first round
_DECAY: Final = 0.98
_LEAST_EXPLORATION: Final = 0.2
_SMALLEST_RANGE: Final = 1e-4
_BELOW_SMALLEST: Final = 0.999


def exploration(server_round: int) -> float:
    """Return the share of new clients in round t = 1, 2, ...: ``max(0.9 * 0.98^t, 0.2)``.

    Examples
    --------
    >>> [round(exploration(number), 3) for number in (1, 2, 80)]
    [0.882, 0.864, 0.2]
    """
    return float(max(_EXPLORATION * _DECAY**server_round, _LEAST_EXPLORATION))


def scores(utilities: ArrayLike, last_rounds: ArrayLike, server_round: int) -> NDArray[np.float64]:
    """Return the score of each explored client in round t.

    With utilities ``U_i`` clipped at the 98th percentile, and ``L_i`` the round of client i's last
    training:

        (U_i - 0.999 min U) / (max U - 0.999 min U) + sqrt(0.1 ln t / L_i)
    """
    utility = np.asarray(utilities, dtype=np.float64)
    ordered = np.sort(utility)
    clip = ordered[min(int(_CLIP * utility.size), utility.size - 1)]
    least = _BELOW_SMALLEST * ordered[0]
    spread = max(ordered[-1] - least, _SMALLEST_RANGE)
    uncertainty = np.sqrt(_UNCERTAINTY * np.log(server_round) / np.asarray(last_rounds))
    return np.asarray((np.minimum(utility, clip) - least) / spread + uncertainty)


def exploit(client_scores: ArrayLike, number: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `number` clients with near-best scores, in proportion to their scores.

    They are drawn without replacement from the clients that score at least 0.7 times as much as the
    best client outside the top `number`.
    """
    score = np.asarray(client_scores, dtype=np.float64)
    ordered = np.sort(score)[::-1]
    cut_off = _CUT_OFF * ordered[min(number, score.size - 1)]
    near = np.flatnonzero(score >= cut_off)
    weights = np.maximum(score[near], _SMALLEST_RANGE)
    return np.asarray(rng.choice(near, number, replace=False, p=weights / weights.sum()))


class OortSelector(LossSelector):
    """Exploits clients with high utility (see `exploit`), and explores clients that never trained.

    The utility is ``U_i = |B_i| sqrt(1/|B_i| sum_k loss(k)^2)`` over the samples k that client i
    last trained on. Clients report the root; ``|B_i|`` cancels, since it is the same for every
    client here. A round exploits ``floor((1 - epsilon) K)`` clients and fills the other places with
    new ones. After Lai et al., "Oort: Efficient Federated Learning via Guided Participant
    Selection", OSDI 2021 (https://arxiv.org/abs/2010.06081), with the constants and the order of
    steps of its code, `oort.py` in https://github.com/SymbioticLab/Oort.

    Choices the paper and the code leave open, or differences from them:

    - There is no duration term and no pacer, since no client is late here, and no blacklist, which
      is off in the code too.
    - New clients are drawn uniformly. The code prefers clients with many samples; here all clients
      have the same number.
    - When too few new clients are left for their places, explored clients fill the round by score.
      The code fills that round at random and stops exploring.

    Parameters
    ----------
    num_participants : int
        ``K``.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw the exploited clients, then the new ones."""
        wanted, server_round = self.num_participants, past.num_rounds + 1
        known = np.array([alias in past.reports for alias in aliases])
        explored, new = np.flatnonzero(known), np.flatnonzero(~known)
        share = int(wanted * (1 - exploration(server_round)))
        number = max(min(share, explored.size), wanted - new.size)
        fresh = rng.choice(new, wanted - number, replace=False)
        if not number:
            return fresh
        reports = [past.reports[aliases[index]] for index in explored.tolist()]
        worth = scores(
            [report.rms_loss for report in reports],
            [report.server_round for report in reports],
            server_round,
        )
        return np.append(explored[exploit(worth, number, rng)], fresh)
