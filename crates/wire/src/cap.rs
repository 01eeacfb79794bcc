//! Capabilities: a signed, short-lived right to read or write one object.
