//! The `aerostat` binary.

fn main() {}
