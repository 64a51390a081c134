//! Bytes to a cluster, the cluster to a plan: it is right, whatever the cluster holds.
//! The engine's test `fuzz_corpus` replays what is kept in `corpus/plan` through the same code.

#![no_main]

#[path = "../../crates/engine/tests/wild/mod.rs"]
mod wild;

libfuzzer_sys::fuzz_target!(|data: &[u8]| wild::survive(data));
