//! How long a client waits: for the next sign of progress, and in all.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::error::{ClientError, Doing};

/// A time-out for every step and a deadline for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    timeout: Duration,
    deadline: Option<Deadline>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    after: Duration,
}

impl Pace {
    /// The deadline runs from now.
    pub(super) fn new(timeout: Duration, deadline: Option<Duration>) -> Pace {
        // A deadline beyond what the clock can say is none.
        let deadline = deadline
            .and_then(|after| Instant::now().checked_add(after).map(|at| Deadline { at, after }));
        Pace { timeout, deadline }
    }

    /// Waits for one step: no longer than the time-out, and not beyond the deadline.
    pub(super) async fn step<T>(
        &self,
        doing: Doing,
        step: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        let late = ClientError::TimedOut { doing, after: self.timeout };
        self.until(Instant::now().checked_add(self.timeout), late, step).await
    }

    /// Waits for something that others decide the length of: only the deadline bounds it.
    pub(super) async fn patiently<T>(
        &self,
        step: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        self.until(None, ClientError::Deadline { after: Duration::MAX }, step).await
    }

    async fn until<T>(
        &self,
        timeout: Option<Instant>,
        late: ClientError,
        step: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        let (end, error) = match (timeout, self.deadline) {
            (Some(timeout), Some(deadline)) if timeout < deadline.at => (timeout, late),
            (_, Some(deadline)) => (deadline.at, ClientError::Deadline { after: deadline.after }),
            (Some(timeout), None) => (timeout, late),
            (None, None) => return Ok(step.await),
        };
        tokio::time::timeout_at(end, step).await.map_err(|_| error)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_nearer_bound_speaks() {
        let second = Duration::from_secs(1);
        let by_step = Pace::new(second, Some(10 * second));
        let error = by_step.step(Doing::Answering, pending::<()>()).await.expect_err("silence");
        assert!(matches!(error, ClientError::TimedOut { after, .. } if after == second));
        let by_end = Pace::new(10 * second, Some(second));
        let error = by_end.step(Doing::Answering, pending::<()>()).await.expect_err("silence");
        assert!(matches!(error, ClientError::Deadline { after } if after == second));
        let error = by_end.patiently(pending::<()>()).await.expect_err("silence");
        assert!(matches!(error, ClientError::Deadline { .. }));
    }

    #[tokio::test]
    async fn endless_patience_is_no_overflow() {
        let pace = Pace::new(Duration::MAX, Some(Duration::MAX));
        assert_eq!(pace.step(Doing::Answering, ready(7)).await.expect("ready"), 7);
        assert_eq!(pace.patiently(ready(8)).await.expect("ready"), 8);
    }
}
