"""The threshold τ of a layer: above it, a relation between clusters gets a sentence of its own (paper eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Threshold:
    """τ of one layer, and why it is that."""

    value: int
    reason: str


def fit_threshold(strengths: NDArray[np.integer[Any]], calls: int, batch: int) -> Threshold:
    """The smallest τ for which all relations with λ > τ fit into ``calls`` calls of ``batch`` relations each.

    "A data-dependent hyper-parameter that may vary with the layer index" (paper, "Aggregated Relation
    Generation"). Relations of equal λ are on one side: fewer calls may be needed than there may be.
    """
    room = calls * batch
    falling = -np.sort(-strengths)
    tau = int(falling[room]) if room < len(falling) else 0
    above = int(np.count_nonzero(strengths > tau))
    used = -(-above // batch)
    return Threshold(
        tau, f"auto: {above} of {len(falling)} relations are above it, {used} of at most {calls} calls."
    )
