//! `--deadline`: the bound on a whole command.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::exit::{Failure, Kind};
use super::signals::Signals;

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

    /// The same for work that only computes, and for signals, which end it too. It cannot be stopped: its
    /// thread is left to the end of the process, which follows at once.
    pub(crate) fn bound_thread<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let waiter = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let waiter = waiter.map_err(|error| {
            Failure::new(Kind::Failed, format!("cannot wait for signals and time: {error}"))
        })?;
        let (sender, done) = oneshot::channel();
        // Nobody listens any more when it is late.
        let worker = std::thread::spawn(move || drop(sender.send(work())));
        let ended = waiter.block_on(async {
            let mut signals = Signals::watch();
            let work = async { Ok(done.await.ok()) };
            tokio::select! {
                ended = self.bound(work) => ended,
                () = signals.next() => Err(Failure::new(Kind::Interrupted, "interrupted")),
            }
        })?;
        match (ended, worker) {
            (Some(result), _) => Ok(result),
            (None, worker) => match worker.join() {
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
