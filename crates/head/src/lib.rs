//! Every decision and all durable metadata. No sockets.
