r"""Prices: participation from a client's own distribution, fitted to noisy sums over all clients.

Client i stands at ``x_i = w_i (p_i - t)``: its label distribution less the wanted one t, times its
weight, which is 1 where all weigh the same. With ``s_i = ||x_i||^2`` it volunteers with

    logit P_i = a + b . x_i + g (w_i - w) - kappa s_i,        kappa = (1 + local_skew) / c

where b are C class prices: whoever holds what is scarce is asked more often. The price g of a
sample applies where weights differ; w is their mean.

*What is minimised.* Of V volunteers K train. With ``m = sum P_i x_i / V`` the mean of x over the K
has the squared length ``||m||^2 + (sum P_i s_i / V - ||m||^2) / K`` on average: bias and sampling
variance. K times that, the skew of those who train and the entropy H of their draws, each at its
price, are

    F(P) = (K - 1) ||m||^2 + (1 + local_skew) sum P_i s_i / V - c / V sum H(P_i)

over ``sum P_i = V`` and ``sum P_i w_i = V w``; c is `coverage` times the trace of the covariance of
x. It is the maximum-entropy (Poisson) design of survey sampling. Without the second condition small
clients, whose x is small, would train most. F is convex and stationary where

    c logit P_i = c a + c g (w_i - w) - 2 (K - 1) m . x_i - (1 + local_skew) s_i

with multipliers c a and c g: the form above with ``b = - 2 (K - 1) m / c``. What P minimises F,
(a, b, g) minimise in the dual, where F = -c (D + const) at the optimum:

    D = 1/V sum softplus(logit P_i) - a + r/2 ||b||^2,        r = c / (2 (K - 1))

The gradient of D is ``(sum P_i / V - 1, m + r b, sum P_i (w_i - w) / V)``.

*How it is solved.* Nodes sum first moments only: ``w p``, ``||w p||^2`` and ``w^2`` at the opening,
then P and ``P w p`` at one point of each exchange. That is the gradient of D there, for any t. In
between every node minimises D over the same synthetic clients, whose shares fit all that was summed
and allow for its noise (`synthetic`). Prices are settled once V is met and little is left to gain,
as far as noise lets that be seen.

*The same prices everywhere.* All rests on integer sums, on Philox's uniform numbers and on smooth
functions of them. Newton's method ends far below 1e-9; prices are rounded to multiples of 2^-10.
"""

from dubhe_flwr.core.prices.design import PriceDesign
from dubhe_flwr.core.prices.numbers import LEAST_VOLUNTEERS, UNIT, PriceNumbers, noise_scale
from dubhe_flwr.core.prices.privacy import PrivacyBound
from dubhe_flwr.core.prices.state import Position, PriceState

__all__ = [
    "LEAST_VOLUNTEERS",
    "UNIT",
    "Position",
    "PriceDesign",
    "PriceNumbers",
    "PriceState",
    "PrivacyBound",
    "noise_scale",
]
