//! The yardstick: reading the JSON of one pod.

use std::hint::black_box;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::pods;

/// How long it takes to read the JSON of a pod as a client sends it; the best of ten rounds.
pub fn parse() -> Duration {
    const TIMES: u32 = 10_000;
    let text = pods::pod("bench", 500, 1024).to_string();
    let round = || {
        let begun = Instant::now();
        for _ in 0..TIMES {
            black_box(serde_json::from_str::<Value>(black_box(&text)).is_ok());
        }
        begun.elapsed() / TIMES
    };
    (0..10).map(|_| round()).min().unwrap_or_default()
}
