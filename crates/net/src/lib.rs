//! Sockets: listeners with limits, the XRootD session loop, metrics, the shutdown tree.
