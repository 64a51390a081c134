//! What this process takes of the machine, in Prometheus' text format, under the names that its
//! client libraries give. On other systems than Linux there is nothing to tell.

use std::fmt::Write as _;

/// `/proc/self/stat` counts in hundredths of a second, whatever the kernel's own rate.
const TICKS: f64 = 100.0;

/// Resident memory and CPU time.
pub(crate) fn metrics() -> String {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    render(&read("/proc/self/stat"), &read("/proc/self/status"))
}

fn render(stat: &str, status: &str) -> String {
    let mut text = String::new();
    let mut tell = |name: &str, kind: &str, help: &str, value: f64| {
        // Writing into a String cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    if let Some(seconds) = cpu(stat) {
        let help = "User and system CPU time of the whole process, the embedded cluster included.";
        tell("process_cpu_seconds_total", "counter", help, seconds);
    }
    if let Some(bytes) = resident(status) {
        let help = "Resident memory of the whole process, the embedded cluster included.";
        tell("process_resident_memory_bytes", "gauge", help, bytes);
    }
    text
}

/// Seconds; the name before them may have blanks, in brackets.
fn cpu(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    Some((ticks.next()?.ok()? + ticks.next()?.ok()?) / TICKS)
}

/// Bytes.
fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_is_read() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 9 0 0 0 250 50 0 0 20 0 4 0 1 2 3";
        let text = render(stat, "Name:\ta\nVmRSS:\t    2048 kB\n");
        assert!(text.contains("\nprocess_cpu_seconds_total 3\n"), "{text}");
        assert!(text.contains("\nprocess_resident_memory_bytes 2097152\n"), "{text}");
        assert_eq!(render("", ""), "");
    }
}
