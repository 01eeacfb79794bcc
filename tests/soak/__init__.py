"""Many clients for a long time: what they do, what they note down, and what the facility looks like meanwhile."""
