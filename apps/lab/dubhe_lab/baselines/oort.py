"""Oort: clients whose samples have high losses train again, and new ones are tried beside them."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_lab.baselines.losses import LossSelector
from dubhe_lab.baselines.roll_call import Past

_CLIP: Final = 0.98  # quantile above which a utility counts no more
_CUT_OFF: Final = 0.7  # c
_UNCERTAINTY: Final = 0.1
_EXPLORATION: Final = 0.9  # epsilon before the first round
_DECAY: Final = 0.98
_LEAST_EXPLORATION: Final = 0.2
_SMALLEST_RANGE: Final = 1e-4
_BELOW_SMALLEST: Final = 0.999


def exploration(server_round: int) -> float:
    """Return the share of new clients in a round, counted from 1: 0.9 times 0.98 to its power.

    It does not fall below 0.2.

    Examples
    --------
    >>> [round(exploration(number), 3) for number in (1, 2, 80)]
    [0.882, 0.864, 0.2]
    """
    return float(max(_EXPLORATION * _DECAY**server_round, _LEAST_EXPLORATION))


def scores(utilities: ArrayLike, last_rounds: ArrayLike, server_round: int) -> NDArray[np.float64]:
    """Return how much each explored client is worth in round t.

    With ``U_i`` clipped at the 98th percentile, and ``L_i`` the round in which it last trained:

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
    """Return that many clients: those near the best scores, drawn in proportion to their scores.

    They are drawn, without replacement, from all whose score is at least 0.7 of the score that
    comes next after that many best.
    """
    score = np.asarray(client_scores, dtype=np.float64)
    ordered = np.sort(score)[::-1]
    cut_off = _CUT_OFF * ordered[min(number, score.size - 1)]
    near = np.flatnonzero(score >= cut_off)
    weights = np.maximum(score[near], _SMALLEST_RANGE)
    return np.asarray(rng.choice(near, number, replace=False, p=weights / weights.sum()))


class OortSelector(LossSelector):
    """Exploits clients of high utility by `exploit`, and explores clients that never trained.

    The utility is ``U_i = |B_i| sqrt(1/|B_i| sum_k loss(k)^2)`` over the samples k on which client
    i last trained; clients report the root, and their number cancels where all train on as many.
    A round exploits ``floor((1 - epsilon) K)`` clients; new ones are drawn for the other places.
    After Lai et al., "Oort: Efficient Federated Learning via Guided Participant Selection", OSDI
    2021 (https://arxiv.org/abs/2010.06081), with the constants and the order of steps of its code,
    `oort.py` in https://github.com/SymbioticLab/Oort.

    The paper and the code leave open, or have as an experiment's setting:

    - No term of duration and no pacer, since nobody is late here, and no blacklist, which is off in
      the code as well.
    - New clients are drawn uniformly. The code prefers those with many samples; here all hold as
      many.
    - Once there are fewer new clients than places, more explored ones fill the round by their
      scores. The code fills that round at random and explores no more afterwards.

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
        """Return the exploited clients, then the new ones."""
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
