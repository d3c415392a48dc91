"""All programs of several products that people write."""

from __future__ import annotations

import product_attention as attention
import product_estimation as estimation
import product_graphs as graphs
import product_learning as learning
import product_losses as losses

TABLES = (
    *(estimation.ESTIMATION, estimation.CHAINS, estimation.STATISTICS),
    *(graphs.KERNELS, graphs.GRAPHS, graphs.ITERATIONS),
    *(learning.OPTIMISERS, learning.NETWORKS, losses.RECURRENT, losses.LOSSES),
    *(attention.ATTENTION, attention.TENSORS),
)
PROGRAMS = [p for table in TABLES for p in table]
