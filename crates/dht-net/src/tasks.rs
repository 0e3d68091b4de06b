//! Every task of an endpoint, quinn's own too, has one owner.

use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, TokioRuntime};
use tokio_util::task::TaskTracker;

/// The tasks of one endpoint. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    crashed: Arc<AtomicBool>,
}

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let watch = CrashWatch(self.crashed.clone());
        self.tracker.spawn(async move {
            let _watch = watch;
            task.await;
        });
    }

    /// Whether no task has panicked.
    pub(crate) fn are_healthy(&self) -> bool {
        !self.crashed.load(Ordering::Relaxed)
    }

    /// Waits until all have ended.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl quinn::Runtime for Tasks {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        Tasks::spawn(self, task);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> std::io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// Notes that a task panicked: the panic itself is printed by whoever set the hook.
struct CrashWatch(Arc<AtomicBool>);

impl Drop for CrashWatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
