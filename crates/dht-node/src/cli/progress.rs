//! Progress on stderr, for people who watch.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress display; silent where nobody watches. It disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn new(visible: bool) -> Progress {
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if visible {
            bar.set_style(style(WORDS));
            bar.enable_steady_tick(TICK);
        }
        Progress { bar }
    }

    /// What is going on, in a few words.
    pub(crate) fn message(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Bytes moved, of so many in all if that is known.
    pub(crate) fn bytes(&self, done: u64, of: Option<u64>) {
        let template = if of.is_some() { BYTES_OF } else { BYTES };
        self.show(template, done, of);
    }

    /// Things done, of so many in all.
    pub(crate) fn count(&self, done: u64, of: u64) {
        self.show(COUNT_OF, done, Some(of));
    }

    fn show(&self, template: &str, done: u64, of: Option<u64>) {
        if self.bar.is_hidden() {
            return;
        }
        if self.bar.length() != of {
            self.bar.set_style(style(template));
            match of {
                Some(of) => self.bar.set_length(of),
                None => self.bar.unset_length(),
            }
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a test checks the templates below")
}

/// How often the display moves when nothing else does (guess).
const TICK: Duration = Duration::from_millis(200);
const WORDS: &str = "{spinner} {msg}";
const BYTES: &str = "{spinner} {msg} {bytes} {binary_bytes_per_sec}";
const BYTES_OF: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
const COUNT_OF: &str = "{msg} [{bar:30}] {pos}/{len} {eta}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [WORDS, BYTES, BYTES_OF, COUNT_OF] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
