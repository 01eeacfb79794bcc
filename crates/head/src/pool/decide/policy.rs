//! The policy of a pool: what the operator promises and allows.

pub use wire::control::{
    COPIES_MAX, Coding, Collection, CollectionOrder, FailureDomain, PIECES_MAX, Pool, Rate, Stripe, Weights,
};
