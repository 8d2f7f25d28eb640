"""The dual of prices over synthetic clients."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from dubhe_flwr.core.prices.newton import Floats, minimum
from dubhe_flwr.core.prices.state import Answer
from dubhe_flwr.core.prices.synthetic import Clients, fitted

_REACH: Final = 20.0
_SLACK: Final = 1e-5
"""Ridge of g, and a thousandth of it of a: they keep the Hessian regular."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the opening says of all clients: t, w, c and kappa, which is 0 where they are alike."""

    target: Floats
    mean_weight: float
    entropy: float
    kappa: float


def sigmoid(logits: Floats) -> Floats:
    """Return ``1 / (1 + exp(-logits))`` without an overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -logits)))


class Dual:
    """D over synthetic clients that fit the answers to the latest exchanges.

    Parameters
    ----------
    clients : Clients
        As the opening says they are.
    answers : list of Answer
        Newest first.
    scale : Scale
    num_clients, num_volunteers : float
        N and V.
    pull : float
        ``r``, the ridge of b.
    num_features : int
        ``1 + n``: a, b and, where clients differ in weight, g.
    """

    def __init__(
        self,
        clients: Clients,
        answers: list[Answer],
        scale: Scale,
        num_clients: int,
        num_volunteers: float,
        pull: float,
        num_features: int,
    ) -> None:
        x = clients.labels - clients.weights[:, None] * scale.target
        rows = np.column_stack([np.ones(len(x)), x, clients.weights - scale.mean_weight])
        self._rows, self._costs = rows[:, :num_features], scale.kappa * (x**2).sum(axis=1)
        self._ridge = np.full(num_features, pull)
        self._ridge[0] = 1e-3 * _SLACK
        self._ridge[1 + x.shape[1] :] = _SLACK
        self._linear = np.zeros(num_features)
        self._linear[0] = -1.0
        probabilities = [sigmoid(self._rows @ one.point - self._costs) for one in answers]
        known = [(p, one.means, one.variance) for p, one in zip(probabilities, answers, strict=True)]
        clients = fitted(clients, known, num_clients, num_volunteers)
        self._factor = num_clients / num_volunteers
        self._shares = clients.shares * self._factor
        if answers:
            self._linear += self._misfit(clients, probabilities[0], answers[0], scale, num_clients)

    def _misfit(
        self,
        clients: Clients,
        probabilities: Floats,
        latest: Answer,
        scale: Scale,
        num_clients: int,
    ) -> Floats:
        """Return what the gradient lacks at the latest point, beyond twice the noise.

        Where no weights of the synthetic clients reproduce what the real ones answered, this keeps
        the model right at the latest point, so that the exchanges still converge.
        """
        chosen = clients.shares * probabilities
        modelled = np.append(chosen @ clients.labels, chosen.sum())
        lacking = latest.means - modelled[: latest.means.size]
        num_classes = clients.labels.shape[1]
        noise = 2.0 * latest.variance * (1 + lacking.size - num_classes) / num_clients**2
        part = max(0.0, 1.0 - noise / max(float(lacking @ lacking), 1e-300))
        total = lacking[:num_classes].sum()  # of P w
        of_logit = lacking[num_classes] if lacking.size > num_classes else total
        of_x = lacking[:num_classes] - total * scale.target
        found = np.array([of_logit, *of_x, total - scale.mean_weight * of_logit])
        return np.asarray(part * self._factor * found[: self._linear.size])

    def _softplus(self, values: Floats) -> tuple[float, Floats, Floats]:
        logits = values - self._costs
        chosen = self._shares * sigmoid(logits)
        total = float(self._shares @ np.logaddexp(0.0, logits))
        return total, chosen, chosen * sigmoid(-logits)

    def value(self, at: Floats) -> float:
        """Return D at a point, shape (1 + n,)."""
        total = self._softplus(self._rows @ at)[0]
        return total + float(self._linear @ at + self._ridge @ at**2 / 2)

    def start(self) -> Floats:
        """Return the point at which all clients are about equally likely."""
        at = np.zeros(self._linear.size)
        at[0] = float(self._shares @ self._costs) / self._factor - np.log(self._factor - 1.0)
        return at

    def minimum(self, start: Floats) -> Floats:
        """Return where D is least."""
        return minimum(self._rows, self._softplus, self._linear, self._ridge, start, _REACH)

    def gain_from_noise(self, at: Floats, variances: Floats) -> float:
        """Return by how much noise of these variances in the gradient makes D seem reducible."""
        second = self._softplus(self._rows @ at)[2]
        hessian = (self._rows * second[:, None]).T @ self._rows + np.diag(self._ridge)
        return float(np.diag(np.linalg.inv(hessian)) @ variances) / 2.0
