//! bpd: the roles, the doors, the operator console.

fn main() {}
