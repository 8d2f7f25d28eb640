"""A covariance matrix of many classes, from its diagonal and its images of a few directions."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PASSES: Final = 50
_LARGEST_SHARE: Final = 0.5


def modelled_covariance(
    variances: Floats, num_classes: int, probes: Floats, images: Floats
) -> Floats:
    """Return a positive matrix with these images of the probes, and nearly these variances.

    It begins with ``diag(d) - d d^T / sum d`` for the classes, which is the covariance of
    multinomial and Dirichlet vectors up to a factor, with d such that the diagonal is right. Then a
    block BFGS update makes it map the probes to their images.

    The variances, shape (n,), may have a component of another kind behind the C classes. Probes and
    images, shape (n, m), are directions and the matrix times them.
    """
    wanted = np.maximum(variances, 1e-12)
    of_classes = wanted[:num_classes]
    diagonal = of_classes
    for _ in range(_PASSES):
        diagonal = of_classes / (1.0 - np.minimum(diagonal / diagonal.sum(), _LARGEST_SHARE))
    model = np.diag(np.append(diagonal, wanted[num_classes:]))
    model[:num_classes, :num_classes] -= np.outer(diagonal, diagonal) / diagonal.sum()
    core = probes.T @ images
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    # Along the other combinations of the probes there is nothing but noise.
    known = vectors[:, values > 1e-6 * max(values.max(initial=0.0), 1e-12)]
    if not known.shape[1]:
        return model
    probes, images = probes @ known, images @ known
    before, core = model @ probes, probes.T @ images
    replaced = probes.T @ before
    replaced += 1e-9 * np.trace(replaced) * np.eye(len(replaced))
    model -= before @ np.linalg.solve(replaced, before.T)
    model += images @ np.linalg.solve((core + core.T) / 2, images.T)
    return np.asarray((model + model.T) / 2)
