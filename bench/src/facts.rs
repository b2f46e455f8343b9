//! The facts of the machine a figure was measured on; a figure without them says nothing.

use std::{fmt, fs};

use serde::Serialize;

/// What the figures depend on.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    /// Model name of the first processor.
    pub(crate) cpu: String,
    /// Processors online.
    pub(crate) cores: usize,
    /// Memory in MiB.
    pub(crate) memory_mib: u64,
    /// Kernel version.
    pub(crate) kernel: String,
    /// One-minute load average when the run began: the machines are shared.
    pub(crate) load: String,
    /// Median of 50 writes of 4 KiB made durable with fdatasync in the temporary directory, in microseconds.
    pub(crate) fdatasync_us: u64,
    /// Seconds since the Unix epoch when the run began.
    pub(crate) unix_time: u64,
}

impl Facts {
    /// Reads them from `/proc` and one short disk probe.
    pub(crate) fn read() -> Self {
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_mib: field("/proc/meminfo", "MemTotal")
                .and_then(|line| line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()))
                .map_or(0, |kib| kib / 1024),
            kernel: release(&first_word("/proc/sys/kernel/osrelease")),
            load: first_word("/proc/loadavg"),
            fdatasync_us: fdatasync().unwrap_or(0),
            unix_time: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |age| age.as_secs()),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = match self.cores {
            1 => "One core".to_owned(),
            2 => "Two cores".to_owned(),
            more => format!("{more} cores"),
        };
        write!(
            formatter,
            "{cores} ({}), {} MiB of memory, Linux {}, load {}, fdatasync of 4 KiB {} µs",
            self.cpu, self.memory_mib, self.kernel, self.load, self.fdatasync_us
        )
    }
}

/// The version in a kernel's release: what a builder adds says nothing.
fn release(text: &str) -> String {
    text.split('-').next().unwrap_or(text).to_owned()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn first_word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn fdatasync() -> std::io::Result<u64> {
    use std::io::Write as _;
    let path = std::env::temp_dir().join(format!("litek8s-bench-{}", std::process::id()));
    let mut file = fs::File::create(&path)?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let begin = std::time::Instant::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    fs::remove_file(&path)?;
    times.sort_unstable();
    Ok(u64::try_from(times[times.len() / 2].as_micros()).unwrap_or(u64::MAX))
}
