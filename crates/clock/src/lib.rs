//! Time and chance as parameters.
//!
//! Nothing in Aerostat reads the machine's clock or its entropy: code that waits asks a [`Clock`],
//! code that draws asks a stream of [`Seeds`]. So the same code runs in real time, faster than real
//! time (`--speed`), and in virtual time, where tokio's paused clock jumps from timer to timer.
//!
//! - [`Clock`]: wall time, and sleeping on it.
//! - [`Seeds`]: named random streams from one seed.

mod clock;
mod seeds;

pub use clock::Clock;
pub use seeds::{Seeds, Stream};
