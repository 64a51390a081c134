//! Each file of `tests/scenarios` is a test: a script and, beside it, the plans and reports that it
//! leads to. `BLESS=1 cargo test -p aerostat-engine --test scenarios` writes them anew.

mod world;

use std::path::Path;

use world::read::{Scenario, time};
use world::render::render;

fn scenario(path: &Path) -> datatest_stable::Result<()> {
    let root = path.parent().and_then(Path::parent).ok_or("no folder")?;
    let scenario = Scenario::read(path)?;
    let mut world = scenario.world(root);
    let mut told = String::new();
    for step in &scenario.steps {
        step.apply(&mut world);
        let now = time(&step.at);
        let (plan, report) = world.plan(now);
        told += &format!("at {}\n{}\n", step.at, render(&plan, &report));
        world.carry_out(&plan, now);
    }
    let golden = path.with_extension("golden");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, told)?;
        return Ok(());
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    if expected == told {
        return Ok(());
    }
    let line = expected.lines().zip(told.lines()).position(|(a, b)| a != b);
    let line = line.unwrap_or(expected.lines().count().min(told.lines().count()));
    let shown = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
    Err(format!(
        "{} differs at line {}:\n  expected: {}\n  got:      {}\nBLESS=1 writes it anew",
        golden.display(),
        line + 1,
        shown(&expected),
        shown(&told)
    )
    .into())
}

datatest_stable::harness! {
    { test = scenario, root = "tests/scenarios", pattern = r"\.yaml$" },
}
