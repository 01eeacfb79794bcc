//! The description that lies beside every object.
