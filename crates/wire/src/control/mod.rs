//! The management API: calls and their replies, as JSON.
