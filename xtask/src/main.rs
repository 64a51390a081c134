//! Developer commands: test, bench, generate.

fn main() {}
