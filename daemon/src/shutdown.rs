//! Signals to a cancellation: the first asks everything to end, the second ends the process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of a process that was told twice, as a shell reports SIGINT.
const IMPATIENT: i32 = 130;

/// A token that is cancelled by the first SIGTERM or SIGINT; the second ends the process at once.
pub fn on_signals() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        for first in [true, false] {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            if first {
                tracing::info!(signal = name, "stopping");
                cancelled.cancel();
            } else {
                tracing::warn!(signal = name, "told twice, ending now");
                std::process::exit(IMPATIENT);
            }
        }
    });
    Ok(token)
}
