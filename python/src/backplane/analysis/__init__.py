"""Passes over n-tuples: plans, the engines that run them, and how their results are added.

A *plan* is all that a process needs to compute some *packets*, runs of row groups that follow from the files alone. The
*engine* of this process computes all of them with its threads; a `Cluster` hands them out to the workers of Dask. What
comes back is added in an order that depends on the packets only, so that results are equal to the last bit.
"""

from ._cluster import Cluster, cluster
from ._merge import merge

__all__ = ["Cluster", "cluster", "merge"]
