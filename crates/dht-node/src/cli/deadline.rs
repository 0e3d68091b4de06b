//! `--deadline`: the bound on a whole command.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::time::Instant;

use super::exit::{Failure, Kind};

/// When a command must be done, if there is such a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Option<(Instant, Duration)>,
}

impl Deadline {
    /// Runs from now.
    pub(crate) fn new(after: Option<Duration>) -> Deadline {
        // A deadline beyond what the clock can say is none.
        let end = after.and_then(|after| Some((Instant::now().checked_add(after)?, after)));
        Deadline { end }
    }

    /// Drops `work` when the time is over.
    pub(crate) async fn bound<T>(
        self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match self.end {
            None => work.await,
            Some((end, after)) => {
                tokio::time::timeout_at(end, work).await.unwrap_or_else(|_| Err(late(after)))
            }
        }
    }

    /// The same for work that only computes. It cannot be stopped: when the time is over, its thread
    /// is left to the end of the process, which follows at once.
    pub(crate) fn bound_thread<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let Some((end, after)) = self.end else { return Ok(work()) };
        let (sender, done) = sync_channel(1);
        // Nobody listens any more when it is late.
        let worker = std::thread::spawn(move || drop(sender.send(work())));
        match done.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Timeout) => Err(late(after)),
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => Err(Failure::new(Kind::Failed, "the work ended without a result")),
            },
        }
    }
}

fn late(after: Duration) -> Failure {
    let text = format!("not done within the deadline of {after:?}; allow more with --deadline");
    Failure::new(Kind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    fn is_late<T>(outcome: &Result<T, Failure>) -> bool {
        matches!(outcome, Err(Failure::Told { kind: Kind::TimedOut, .. }))
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_with_the_deadline() {
        let short = Deadline::new(Some(Duration::from_secs(1)));
        assert!(is_late(&short.bound(std::future::pending::<Result<(), Failure>>()).await));
        assert_eq!(short.bound(async { Ok(7) }).await.expect("it is done"), 7);
        for endless in [Deadline::new(None), Deadline::new(Some(Duration::MAX))] {
            assert_eq!(endless.bound(async { Ok(7) }).await.expect("it is done"), 7);
        }
    }

    #[test]
    fn a_thread_is_left_behind() {
        let held = Arc::new(Barrier::new(2));
        let work = held.clone();
        let short = Deadline::new(Some(Duration::from_millis(10)));
        assert!(is_late(&short.bound_thread(move || work.wait().is_leader())));
        held.wait();
        let long = Deadline::new(Some(Duration::from_secs(3600)));
        assert_eq!(long.bound_thread(|| 7).expect("it is done"), 7);
    }
}
