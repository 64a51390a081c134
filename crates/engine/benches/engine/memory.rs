//! The memory of this process, from Linux' `/proc`.

/// Forgets the peak so far.
pub fn forget_peak() {
    // Without it the peak is that of the whole process: more, never less.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most that was resident, in MiB; `None` where `/proc` does not say.
pub fn peak() -> Option<f64> {
    resident("VmHWM:")
}

/// What is resident, in MiB.
pub fn now() -> Option<f64> {
    resident("VmRSS:")
}

fn resident(field: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}
