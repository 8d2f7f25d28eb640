r"""Prices: a client's probability of volunteering, from its own label distribution.

The coefficients are fitted to noisy sums over all clients.

Client i has the position ``x_i = w_i (p_i - t)``: its label distribution less the target t, times
its weight, which is 1 if all clients weigh the same. With ``s_i = ||x_i||^2`` it volunteers with

    logit P_i = a + b . x_i + g (w_i - w) - kappa s_i,        kappa = (1 + local_skew) / c

where the C entries of b are class prices: they make a client with scarce classes volunteer more
often. The price of a sample, g, applies only if weights differ; w is the mean weight.

*What is minimised.* V clients volunteer on average, and K of them train. The mean of x over these K
has the expected squared length ``||m||^2 + (sum P_i s_i / V - ||m||^2) / K`` with
``m = sum P_i x_i / V``: bias plus sampling variance. Multiply this by K, add the participants'
local skew, and subtract the entropy H of the draws, with a price on each of the last two:

    F(P) = (K - 1) ||m||^2 + (1 + local_skew) sum P_i s_i / V - c / V sum H(P_i)

subject to ``sum P_i = V`` and ``sum P_i w_i = V w``, where c is `coverage` times the trace of the
covariance of x. This is the maximum-entropy (Poisson) design of survey sampling. Without the second
condition, small clients would train the most, as their x is small. F is convex and stationary where

    c logit P_i = c a + c g (w_i - w) - 2 (K - 1) m . x_i - (1 + local_skew) s_i

with multipliers c a and c g: the form above with ``b = - 2 (K - 1) m / c``. Instead of minimising F
over P, minimise its dual over (a, b, g); F = -c (D + const) at the optimum:

    D = 1/V sum softplus(logit P_i) - a + r/2 ||b||^2,        r = c / (2 (K - 1))

The gradient of D is ``(sum P_i / V - 1, m + r b, sum P_i (w_i - w) / V)``. With noise, a small
ridge on g is added, because the opening may say too little about the weights.

*Sums and draws.* Sums are taken at prices for V volunteers, enough for a sum to stand out from its
noise. A draw needs only K volunteers and a standard deviation more, ``V' = min(V, K + isqrt(K))``.
With fewer volunteers, fewer clients would need a P above 1, so prices can balance more. The prices
for draws minimise the same F, through the same dual D, with V' in place of V.

*How it is solved.* Nodes sum only first moments: ``w p``, ``||w p||^2`` and ``w^2`` at the opening,
then P and ``P w p`` at one point per sum. These sums give the gradient of D at that point, for
any t. Between two sums, every node minimises D over the same synthetic clients, whose shares fit
all sums so far and allow for their noise (`synthetic`). Prices count as settled once the number of
volunteers is close to V and, as far as the noisy sums show, little is left to gain. Then every node
minimises D once more, for V'. No sum is taken at the prices for draws, so they cost no noise.

*Few classes.* A client's yes and no reveal its P, and if there are few classes, a few values of P
reveal its labels. So P then follows from a blurred label distribution q instead of p (`blur`). The
noise of q always stays the same, so a client's answers reveal nothing more than q. Sums contain
``P w p`` with the exact p, which keeps the blur from biasing prices. Synthetic clients are blurred
in the same way.

*The same prices everywhere.* All results are smooth functions of integer sums and of Philox's
uniform numbers. Newton's method ends with errors far below 1e-9, or after 100 steps if prices are
in the thousands, and prices are rounded to multiples of 2^-10.
"""

from dubhe_flwr.core.prices.blur import FEW_CLASSES
from dubhe_flwr.core.prices.design import PriceDesign, volunteers_at_sums
from dubhe_flwr.core.prices.numbers import LEAST_VOLUNTEERS, UNIT, FixedPoint
from dubhe_flwr.core.prices.privacy import PrivacyBound
from dubhe_flwr.core.prices.state import PriceState

__all__ = [
    "FEW_CLASSES",
    "LEAST_VOLUNTEERS",
    "UNIT",
    "FixedPoint",
    "PriceDesign",
    "PriceState",
    "PrivacyBound",
    "volunteers_at_sums",
]
