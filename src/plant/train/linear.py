"""A linear model of many labels; apart from its fitting, which is compiled and takes long to import."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


@dataclass(frozen=True)
class Linear:
    """Sparse weights, labels x features, and one intercept per label."""

    weights: csr_array
    intercepts: NDArray[np.float32]
