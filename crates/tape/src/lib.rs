//! Tape server: drives, changers, labels, the session state machine, the copier.
