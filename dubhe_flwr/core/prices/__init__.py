r"""Prices: participation from a client's own distribution, fitted to sums over all clients.

Client i stands at ``x_i = w_i (p_i - t)``: its label distribution less the wanted one t, times its
weight, which is 1 where all weigh the same. With ``s_i = ||x_i||^2`` it volunteers with

    logit P_i = a + b . x_i + g (w_i - w) - kappa s_i,        kappa = (1 + local_skew) / c

where b are C class prices: who holds what is scarce is asked more often. g, the price of a sample,
is there where weights differ, and w is their mean.

*What is minimised.* Of V volunteers K train. With ``m = sum P_i x_i / V`` the mean of x over the K
has the squared length ``||m||^2 + (sum P_i s_i / V - ||m||^2) / K`` on average: bias and sampling
variance. K times that, the skew of those who train and the entropy H of their draws, each at its
price, are

    F(P) = (K - 1) ||m||^2 + (1 + local_skew) sum P_i s_i / V - c / V sum H(P_i)

over ``sum P_i = V`` and ``sum P_i w_i = V w``. It is the maximum-entropy (Poisson) design of survey
sampling. Without the second condition small clients would be called, whose x is small, and they
would train on less than half as many samples. F is convex and stationary where

    c logit P_i = c a + c g (w_i - w) - 2 (K - 1) m . x_i - (1 + local_skew) s_i

with multipliers c a and c g, which is the form above with ``b = - 2 (K - 1) m / c``. What P
minimises F, (a, b, g) minimise in the dual

    D = 1/V sum softplus(logit P_i) - a + r/2 ||b||^2,        r = c / (2 (K - 1))

For F = -c (D + const) at the optimum. The gradient of D is ``(sum P_i / V - 1, m + r b, sum P_i
(w_i - w) / V)``; its Hessian has ``sum q_i z_i z_i^T / V``, with ``q_i = P_i (1 - P_i)`` and
``z = (1, x, w_i - w)``, and r on the diagonal of b. Where all w_i = 1 and t is uniform these are
the formulas for p_i in place of x_i, with ``- 2 K t . m`` in F and ``- K / (K - 1) t . b`` in D.

*How it is solved.* D and its derivatives are sums over clients; all nodes get them decrypted, and
each takes the same Newton steps. The sums of the opening, where all are equally likely, travel
with the registration. They give c, which is `coverage` times the trace of the covariance of x, and
a linear guess; in a later epoch the guess are the prices that clients remember. An exchange
evaluates everything at the point of the state, and softplus alone after shorter steps: a step that
went too far costs one exchange. Before each step a is corrected as if all P_i grew by one factor,
which is exact for small ones. Prices are settled once V is met and little is left to gain of F.

*The same prices everywhere.* Everything rests on sums of integers, and what a solve returns is
rounded to multiples of 2^-14: far coarser than the last bits in which platforms differ, and finer
than a probability needs.
"""

from dubhe_flwr.core.prices.design import PriceDesign
from dubhe_flwr.core.prices.numbers import LEAST_VOLUNTEERS, PriceNumbers, noise_scale
from dubhe_flwr.core.prices.state import Position, PriceState

__all__ = [
    "LEAST_VOLUNTEERS",
    "Position",
    "PriceDesign",
    "PriceNumbers",
    "PriceState",
    "noise_scale",
]
