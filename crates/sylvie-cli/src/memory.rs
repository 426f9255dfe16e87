//! How much memory this process took.

use std::fs;

/// Largest resident set so far in megabytes; `None` where the system does not say.
pub(crate) fn peak_rss_mb() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    parse(&status)
}

fn parse(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_peak_is_read_in_megabytes() {
        assert_eq!(parse("VmPeak:\t 9 kB\nVmHWM:\t    1000 kB\n"), Some(1.024));
        assert_eq!(parse("VmPeak:\t 9 kB\n"), None);
        assert_eq!(parse("VmHWM:\t many kB\n"), None);
    }
}
