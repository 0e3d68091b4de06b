//! Group commit: callers that want something written at the same time share one transaction and its
//! syncs. There is no thread for it; whoever finds nobody at work works for all that wait.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::tables::{Applied, Change};
use crate::error::StoreError;

/// Most changes in one transaction (guess: half of the threads that block at once by tokio's
/// default).
const MAX_BATCH: usize = 256;
/// A batch takes no further change once its registers have so many bytes (guess: a transaction of
/// some ten milliseconds).
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The queue before the index. Each entry belongs to a thread that waits for it, so it is no longer
/// than callers are.
#[derive(Debug)]
pub(crate) struct Committer {
    path: PathBuf,
    queue: Mutex<Queue>,
    turn: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(u64, Change)>,
    answers: BTreeMap<u64, Result<Applied, StoreError>>,
    next_ticket: u64,
    /// Whether some thread is at work for all.
    led: bool,
}

impl Committer {
    /// For the index at `path`, which errors name.
    pub(crate) fn new(path: PathBuf) -> Committer {
        Committer { path, queue: Mutex::default(), turn: Condvar::new() }
    }

    /// Has a change carried out by `apply`, alone or with others, and answers what came of it.
    /// `apply` gets changes in the order they were submitted and answers one by one.
    pub(crate) fn submit(
        &self,
        change: Change,
        apply: impl Fn(&[Change]) -> Result<Vec<Applied>, StoreError>,
    ) -> Result<Applied, StoreError> {
        let mut queue = self.lock();
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push_back((ticket, change));
        loop {
            if let Some(answer) = queue.answers.remove(&ticket) {
                return answer;
            }
            if queue.led {
                queue = self.turn.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.led = true;
            let (tickets, changes) = queue.take_batch();
            drop(queue);
            let mut lead = Lead { committer: self, tickets, outcome: None };
            lead.outcome = Some(apply(&changes));
            drop(lead);
            queue = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The oldest changes, at least one, up to the bounds.
    fn take_batch(&mut self) -> (Vec<u64>, Vec<Change>) {
        let (mut tickets, mut changes, mut bytes) = (Vec::new(), Vec::new(), 0);
        while changes.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            let Some((ticket, change)) = self.waiting.pop_front() else { break };
            bytes += match &change {
                Change::Save(entries) => entries.iter().map(|entry| entry.len()).sum(),
                Change::Meta(_, value) => value.len(),
                _ => 0,
            };
            tickets.push(ticket);
            changes.push(change);
        }
        (tickets, changes)
    }
}

/// One batch at work. However it ends, by a panic too, every waiter gets an answer and the next
/// batch can begin.
struct Lead<'a> {
    committer: &'a Committer,
    tickets: Vec<u64>,
    outcome: Option<Result<Vec<Applied>, StoreError>>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            let text = "the thread that committed for others panicked".to_owned();
            let source = Arc::new(redb::Error::Corrupted(text));
            Err(StoreError::Index { path: self.committer.path.clone(), source })
        });
        let mut queue = self.committer.lock();
        match outcome {
            Ok(answers) => {
                debug_assert_eq!(answers.len(), self.tickets.len());
                let answers = self.tickets.iter().copied().zip(answers.into_iter().map(Ok));
                queue.answers.extend(answers);
            }
            Err(error) => {
                let answers = self.tickets.iter().map(|ticket| (*ticket, Err(error.clone())));
                queue.answers.extend(answers);
            }
        }
        queue.led = false;
        self.committer.turn.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn change(n: usize) -> Change {
        Change::Meta(n.to_string(), vec![0; n])
    }

    fn len(change: &Change) -> usize {
        match change {
            Change::Meta(_, value) => value.len(),
            other => panic!("{other:?} was not submitted"),
        }
    }

    /// Echoes the length of each change in the number of held ballots.
    fn echo(changes: &[Change]) -> Vec<Applied> {
        let applied = |change| Applied { held: vec![None; len(change)], changed: true };
        changes.iter().map(applied).collect()
    }

    #[test]
    fn whoever_waits_shares_the_next_batch_and_gets_its_own_answer() {
        const CALLERS: usize = 8;
        let committer = Committer::new(PathBuf::from("index"));
        let batches = Mutex::new(Vec::new());
        let all_queued = || committer.lock().waiting.len() == CALLERS - 1;
        let apply = |changes: &[Change]| {
            let mut batches = batches.lock().unwrap();
            if batches.is_empty() {
                // The first works until all others stand behind it.
                while !all_queued() {
                    thread::yield_now();
                }
            }
            batches.push(changes.len());
            Ok(echo(changes))
        };
        thread::scope(|scope| {
            for n in 0..CALLERS {
                let (committer, apply) = (&committer, &apply);
                scope.spawn(move || {
                    let applied = committer.submit(change(n), apply).unwrap();
                    assert_eq!(applied.held.len(), n);
                });
            }
        });
        assert_eq!(*batches.lock().unwrap(), [1, CALLERS - 1]);
        assert!(committer.lock().answers.is_empty(), "every answer was fetched");
    }

    #[test]
    fn a_batch_ends_at_its_bounds() {
        let mut queue = Queue::default();
        let many = (0..MAX_BATCH as u64 + 1).map(|n| (n, change(0)));
        queue.waiting.extend(many);
        assert_eq!(queue.take_batch().1.len(), MAX_BATCH);
        assert_eq!(queue.take_batch().0, [MAX_BATCH as u64]);
        queue.waiting.extend((0..3).map(|n| (n, change(MAX_BATCH_BYTES))));
        assert_eq!(queue.take_batch().0, [0], "one too long change still goes, alone");
        assert_eq!(queue.take_batch().0, [1]);
    }

    #[test]
    fn a_failed_batch_fails_for_each_of_its_callers_and_the_next_goes_on() {
        let committer = Committer::new(PathBuf::from("index"));
        let failed = committer.submit(change(1), |_| Err(StoreError::Closed));
        assert!(matches!(failed, Err(StoreError::Closed)));
        assert_eq!(committer.submit(change(2), |all| Ok(echo(all))).unwrap().held.len(), 2);
    }

    #[test]
    fn a_panic_while_leading_leaves_nobody_waiting() {
        let committer = Committer::new(PathBuf::from("index"));
        let (begun, calls) = (Barrier::new(2), AtomicUsize::new(0));
        let apply = |changes: &[Change]| {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                begun.wait();
                while committer.lock().waiting.is_empty() {
                    thread::yield_now();
                }
                panic!("on purpose");
            }
            Ok(echo(changes))
        };
        thread::scope(|scope| {
            let leader = scope.spawn(|| committer.submit(change(1), apply));
            begun.wait();
            assert_eq!(committer.submit(change(3), apply).unwrap().held.len(), 3);
            assert!(leader.join().is_err(), "the panic surfaces in its own thread");
        });
    }
}
