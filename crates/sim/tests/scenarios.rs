//! Whole stories in virtual time: the same controllers on the same embedded cluster, without
//! sockets. Each `scenarios/*.yaml` is played twice, and must tell what its `.golden` says, to the
//! byte. `BLESS=1` accepts what is told now.

use std::path::Path;

fn play(path: &Path) -> datatest_stable::Result<()> {
    let told = aerostat_sim::scenario::play(path).map_err(|error| format!("{error:#}"))?;
    let again = aerostat_sim::scenario::play(path).map_err(|error| format!("{error:#}"))?;
    if told != again {
        return Err(format!(
            "the same seed told another story:\n{}",
            first_difference(&told, &again)
        )
        .into());
    }
    let golden = path.with_extension("golden");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, &told)?;
        return Ok(());
    }
    let wanted = std::fs::read_to_string(&golden).unwrap_or_default();
    if told != wanted {
        return Err(format!(
            "{} differs (BLESS=1 accepts it):\n{}\n\nall of it:\n{told}",
            golden.display(),
            first_difference(&wanted, &told)
        )
        .into());
    }
    Ok(())
}

fn first_difference(wanted: &str, told: &str) -> String {
    let mut wanted = wanted.lines();
    let mut told = told.lines();
    let mut number = 0;
    loop {
        number += 1;
        let (wanted, told) = (wanted.next(), told.next());
        if wanted != told {
            let show = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
            return format!("line {number}:\n- {}\n+ {}", show(wanted), show(told));
        }
        if wanted.is_none() {
            return "no line differs".to_owned();
        }
    }
}

datatest_stable::harness! {
    { test = play, root = "tests/scenarios", pattern = r"^[^/]+\.yaml$" },
}
