//! A scenario in virtual time.

use std::path::Path;

use tokio::time::Instant;

use crate::report::{Goal, Row, Table};

/// The warm story: five minutes of balloons, preemption and nodes that go.
pub fn warm(table: &mut Table) -> anyhow::Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/scenarios/warm.yaml");
    let begun = Instant::now();
    let told = aerostat_sim::scenario::play(&file)?;
    let took = begun.elapsed();
    let note = format!(
        "300 s of simulated time, {} lines told; {}",
        told.lines().count(),
        table.in_parses(took)
    );
    table.add(Row::time("warm story in virtual time", took, Goal::AtMost(2000.0)).note(note));
    Ok(())
}
