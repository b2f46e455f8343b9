//! Where log lines go and how they look; what is secret is never given to it.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How a log line is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One readable line an event.
    #[default]
    Text,
    /// One JSON object an event.
    Json,
}

/// Why logs cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The format is unknown.
    #[error("unknown log format {0:?}, expected text or json")]
    Format(String),
    /// The filter is not one.
    #[error("log filter {0:?} cannot be read")]
    Filter(String),
    /// Logs were set up before.
    #[error("logs are set up already")]
    Twice,
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(LoggingError::Format(other.to_owned())),
        }
    }
}

/// Sends events to standard error; `filter` is in the syntax of `RUST_LOG`, for example `info,litek8s_raft=debug`.
pub fn init(format: LogFormat, filter: &str) -> Result<(), LoggingError> {
    // It would write down whole answers of the kernel, and with them the private keys of WireGuard interfaces.
    let complete = format!("{filter},netlink_proto::codecs=off");
    let filter = EnvFilter::try_new(complete).map_err(|_| LoggingError::Filter(filter.to_owned()))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let done = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
    done.map_err(|_| LoggingError::Twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_text_or_json() {
        assert_eq!("json".parse::<LogFormat>().unwrap(), LogFormat::Json);
        assert_eq!("text".parse::<LogFormat>().unwrap(), LogFormat::Text);
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
