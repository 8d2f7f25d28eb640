"""Active Federated Learning: clients with a larger last known loss are drawn more often."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dubhe_lab.baselines.losses import LossSelector
from dubhe_lab.baselines.roll_call import Past

_DROPPED: Final = 0.75  # alpha_1
_SOFTMAX_SCALE: Final = 0.01  # alpha_2
_AT_RANDOM: Final = 0.1  # alpha_3


def draw_by_value(
    values: ArrayLike, num_participants: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw K of N clients by their values.

    The alpha_1 N clients with the lowest values are left out. From the rest, (1 - alpha_3) K are
    drawn without replacement, with probabilities proportional to ``exp(alpha_2 v_k)``. The
    remaining places are filled uniformly from all clients not drawn yet. The constants are 0.75,
    0.01 and 0.1.
    """
    value = np.asarray(values, dtype=np.float64)
    drawn = int((1 - _AT_RANDOM) * num_participants)
    # With K above N / 4, leaving out alpha_1 N clients would leave too few to draw from.
    dropped = min(int(_DROPPED * value.size), value.size - drawn)
    left = np.argsort(value, kind="stable")[dropped:]
    weights = np.exp(_SOFTMAX_SCALE * (value[left] - value.max()))
    first = rng.choice(left, drawn, replace=False, p=weights / weights.sum())
    others = np.setdiff1d(np.arange(value.size), first)
    return np.append(first, rng.choice(others, num_participants - drawn, replace=False))


class ActiveSelector(LossSelector):
    """Prefers clients whose loss was large when they last trained; see `draw_by_value`.

    A client's value is ``v_k = sqrt(n_k) l_k``, where n_k is its number of samples and l_k its mean
    loss. The value stays the same until the client trains again. After Goetz et al., "Active
    Federated Learning", 2019 (https://arxiv.org/abs/1909.12641), with the paper's constants, which
    FedCor's code (CVPR 2022, https://arxiv.org/abs/2103.13822) uses too.

    Choices the paper leaves open, or varies between experiments:

    - The first values: as in FedCor's code, every client evaluates the model in its first round.
      This costs N evaluations once.
    - The loss: here the mean over the batches of the client's last local training, which clients
      report anyway. The paper uses the loss of the model that the client received.
    - K above N / 4: fewer low-value clients are left out, so that enough remain to draw from.

    Parameters
    ----------
    num_participants : int
        ``K``.
    num_samples : int
        ``n_k``, which is the same for every client in an experiment.
    seed : int, optional (default: from the operating system)
        Fixes the choices.
    """

    def __init__(self, num_participants: int, num_samples: int, seed: int | None = None) -> None:
        super().__init__(num_participants, seed)
        self.num_samples = num_samples

    def candidates(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the clients that have no value yet."""
        del rng
        return np.flatnonzero([alias not in past.reports for alias in aliases])

    def choose(
        self, aliases: Sequence[str], past: Past, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw by the latest values; a client that never reported a loss has the value 0."""
        losses = [past.reports[of].loss if of in past.reports else 0.0 for of in aliases]
        values = np.sqrt(self.num_samples) * np.array(losses)
        return draw_by_value(values, self.num_participants, rng)
