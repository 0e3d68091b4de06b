//! The signals that end a command.

/// Resolves at SIGINT or SIGTERM; where no signal can be watched, never. From its first poll on,
/// these signals no longer end the process by themselves, so whoever waits once must go on waiting.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    watched: Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// Watches from now on. Must be called inside a tokio runtime.
    #[cfg(unix)]
    pub(crate) fn watch() -> Signals {
        use tokio::signal::unix::{SignalKind, signal};
        let watched = signal(SignalKind::interrupt())
            .and_then(|int| Ok((int, signal(SignalKind::terminate())?)));
        Signals { watched: watched.ok() }
    }

    /// Watches from now on. Must be called inside a tokio runtime.
    #[cfg(not(unix))]
    pub(crate) fn watch() -> Signals {
        Signals {}
    }

    /// Waits for the next signal. Nothing is lost when it is not waited for to the end.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        match &mut self.watched {
            Some((interrupt, terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for the next signal. Nothing is lost when it is not waited for to the end.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
