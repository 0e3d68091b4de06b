//! Tasks with an owner: all of a set end when the set does, and somebody waits for that.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A set of tasks. Clones speak of the same set.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    ending: CancellationToken,
}

impl Tasks {
    pub(super) fn new() -> Tasks {
        Tasks { tracker: TaskTracker::new(), ending: CancellationToken::new() }
    }

    /// Starts a task, which is dropped at its next pause once the set ends.
    pub(super) fn spawn<F>(&self, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(self.ending.clone().run_until_cancelled_owned(task))
    }

    /// Starts a job on a blocking thread. It cannot be dropped half-way, so it must be short.
    pub(super) fn spawn_blocking<F, T>(&self, job: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn_blocking(job)
    }

    /// Drops every task without waiting for that.
    pub(super) fn cancel(&self) {
        self.ending.cancel();
    }

    /// Drops every task and waits until the last one is gone, at most for `limit`. Whether it is.
    pub(super) async fn end(&self, limit: Duration) -> bool {
        self.ending.cancel();
        self.finish(limit).await
    }

    /// Waits until every task is done, at most for `limit`. Whether they are.
    pub(super) async fn finish(&self, limit: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.tracker.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_drops_what_waits_for_ever() {
        let tasks = Tasks::new();
        tasks.spawn(std::future::pending::<()>());
        let job = tasks.spawn_blocking(|| 7);
        assert_eq!(job.await.expect("no panic"), 7);
        assert_eq!(tasks.len(), 1);
        assert!(tasks.end(Duration::from_secs(30)).await);
        assert_eq!(tasks.len(), 0);
    }
}
