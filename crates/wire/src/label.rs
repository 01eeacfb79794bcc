//! Tape labels: ASCII user labels (AUL).
