//! How a command ends: the exit codes of `docs/cli.md`, and what is said about a failure.

use std::io;

use dht_core::message::Refusal;
use dht_core::message::client::ClientErrorCode;
use dht_net::DialError;

use crate::client::{AttemptError, ClientError};

/// The exit codes. Their numbers are part of the contract.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Exit {
    /// It was done.
    Done = 0,
    /// It failed in a way that no other code tells.
    Failed = 1,
    /// The command line or a setting is wrong; nothing was tried.
    Usage = 2,
    /// There is no such key.
    NotFound = 3,
    /// Nobody answered, or not in time, or too few.
    Unreachable = 4,
    /// A condition did not hold.
    Conflict = 5,
    /// Data is short, lost or fails its hash.
    Incomplete = 6,
    /// Not allowed.
    Denied = 7,
    /// A signal ended it.
    Interrupted = 130,
}

impl Exit {
    /// How a command ends that found this out and then said so. A reader who went away early changes
    /// nothing of what was found: `sim check | head -1` must not turn a failure into a success.
    pub(crate) fn having_said(self, said: Result<(), Failure>) -> Result<Exit, Failure> {
        match said {
            Ok(()) | Err(Failure::ReaderGone) => Ok(self),
            Err(told) => Err(told),
        }
    }
}

/// Kinds of failure that scripts can tell apart; several may share an exit code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Anything else.
    Failed,
    /// A file could not be read or written here.
    Io,
    /// The disk is full.
    NoSpace,
    /// The command line or a setting is wrong.
    Usage,
    /// There is no such key.
    NotFound,
    /// Nobody answered.
    Unreachable,
    /// Nothing moved for the time-out, or the deadline passed.
    TimedOut,
    /// Too few copies answered; nothing was proposed.
    NoQuorum,
    /// The write may appear later.
    UnknownOutcome,
    /// The member has no place in its ring yet, or lost it.
    NotMember,
    /// A condition did not hold.
    Conflict,
    /// Data is short, lost or fails its hash.
    Incomplete,
    /// Not allowed.
    Denied,
    /// A signal ended it.
    Interrupted,
}

impl Kind {
    /// Every kind, for the documentation's test.
    #[cfg(test)]
    pub(crate) const ALL: [Kind; 14] = [
        Kind::Failed,
        Kind::Io,
        Kind::NoSpace,
        Kind::Usage,
        Kind::NotFound,
        Kind::Unreachable,
        Kind::TimedOut,
        Kind::NoQuorum,
        Kind::UnknownOutcome,
        Kind::NotMember,
        Kind::Conflict,
        Kind::Incomplete,
        Kind::Denied,
        Kind::Interrupted,
    ];

    /// The word in the JSON of an error.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Failed => "failed",
            Kind::Io => "io",
            Kind::NoSpace => "no_space",
            Kind::Usage => "usage",
            Kind::NotFound => "not_found",
            Kind::Unreachable => "unreachable",
            Kind::TimedOut => "timed_out",
            Kind::NoQuorum => "no_quorum",
            Kind::UnknownOutcome => "unknown_outcome",
            Kind::NotMember => "not_member",
            Kind::Conflict => "conflict",
            Kind::Incomplete => "incomplete",
            Kind::Denied => "denied",
            Kind::Interrupted => "interrupted",
        }
    }

    /// The exit code that goes with it.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Kind::Failed | Kind::Io | Kind::NoSpace => Exit::Failed,
            Kind::Usage => Exit::Usage,
            Kind::NotFound => Exit::NotFound,
            Kind::Unreachable
            | Kind::TimedOut
            | Kind::NoQuorum
            | Kind::UnknownOutcome
            | Kind::NotMember => Exit::Unreachable,
            Kind::Conflict => Exit::Conflict,
            Kind::Incomplete => Exit::Incomplete,
            Kind::Denied => Exit::Denied,
            Kind::Interrupted => Exit::Interrupted,
        }
    }
}

/// Why a command did not do what it should, ready to be shown.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Say this and end.
    Told {
        /// What kind of failure.
        kind: Kind,
        /// What happened and what to do next, on one line.
        message: String,
    },
    /// Whoever read the output has gone. Nothing is left to say, and nobody to say it to.
    ReaderGone,
}

impl Failure {
    /// A failure of some kind.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure::Told { kind, message: message.into() }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Usage, message)
    }

    /// Something is known and not built yet.
    pub(crate) fn not_built(what: &str, instead: &str) -> Failure {
        Failure::usage(format!("{what} is not built yet; {instead}"))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        if let ClientError::Output(source) = &error
            && source.kind() == io::ErrorKind::BrokenPipe
        {
            return Failure::ReaderGone;
        }
        let kind = kind_of(&error);
        let text = one_line(&error.to_string());
        let message = match next_step(&error) {
            Some(next) => format!("{text}; {next}"),
            None => text,
        };
        Failure::Told { kind, message }
    }
}

/// What kind of failure a client's error is.
pub(crate) fn kind_of(error: &ClientError) -> Kind {
    match error {
        ClientError::Bind(_) => Kind::Failed,
        ClientError::NoNode(_)
        | ClientError::Request { .. }
        | ClientError::Body { .. }
        | ClientError::BadAnswer { .. } => Kind::Unreachable,
        ClientError::Refused { refusal, .. } => match refusal {
            Refusal::NotAdmin => Kind::Denied,
            Refusal::TooLarge { .. } | Refusal::Malformed => Kind::Usage,
            Refusal::Overloaded { .. }
            | Refusal::ShuttingDown
            | Refusal::OtherRing { .. }
            | Refusal::NoHello
            | Refusal::NoSuchPlace { .. } => Kind::Unreachable,
            Refusal::NoProgress | Refusal::Unsupported => Kind::Failed,
        },
        ClientError::Failed { code, .. } => match code {
            ClientErrorCode::Failed => Kind::Failed,
            ClientErrorCode::NotFound => Kind::NotFound,
            ClientErrorCode::Unreachable => Kind::Unreachable,
            ClientErrorCode::NoQuorum => Kind::NoQuorum,
            ClientErrorCode::UnknownOutcome => Kind::UnknownOutcome,
            ClientErrorCode::Conflict => Kind::Conflict,
            ClientErrorCode::Incomplete => Kind::Incomplete,
            ClientErrorCode::Denied => Kind::Denied,
            ClientErrorCode::NoSpace => Kind::NoSpace,
            ClientErrorCode::Usage => Kind::Usage,
            ClientErrorCode::NotMember => Kind::NotMember,
        },
        ClientError::TimedOut { .. } | ClientError::Deadline { .. } => Kind::TimedOut,
        ClientError::Mismatch { .. } => Kind::Incomplete,
        ClientError::Input(_) | ClientError::Output(_) => Kind::Io,
    }
}

/// What to do next, where the error itself does not say it.
fn next_step(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::NoNode(attempts) => Some(
            // With several nodes, the one that answered something tells most.
            attempts
                .iter()
                .map(|attempt| after_attempt(&attempt.error))
                .max()
                .map_or(START, |to| to.1),
        ),
        ClientError::TimedOut { .. } => Some("try again, or allow more with --timeout"),
        ClientError::Deadline { .. } => Some("allow more with --deadline"),
        ClientError::Request { .. } | ClientError::Body { .. } => {
            Some("try again, or name another node with --node")
        }
        ClientError::Mismatch { .. } => Some("try again through another node with --node"),
        _ => None,
    }
}

/// How much the failure of an attempt tells, and what to do about it.
fn after_attempt(error: &AttemptError) -> (u8, &'static str) {
    match error {
        AttemptError::Resolve(_) | AttemptError::NoAddress => {
            (2, "check the name, or give the address in numbers with --node")
        }
        AttemptError::WrongId { .. } => {
            (5, "ask `dht-node id` there who it is, or leave the part before the @ out")
        }
        AttemptError::TimedOut => (1, "try again, or allow more with --timeout"),
        AttemptError::Dial(error) => match error {
            DialError::NothingListens { .. } => (0, START),
            DialError::NoAnswer { .. } => (0, REACH),
            DialError::OtherRingName { .. } => (5, "name the ring it belongs to with --ring"),
            DialError::OtherVersion { .. } => (5, "use the same version of dht-node here as there"),
            DialError::OtherProtocol { .. } => {
                (4, "give the port of a node with --node: 4433, unless its --listen says otherwise")
            }
            DialError::Unroutable { .. } => {
                (2, "name it with --node by an address that this machine can send to")
            }
            DialError::Refused { .. } | DialError::Broken { .. } => {
                (3, "try again, or name another node with --node")
            }
            _ => (1, "name another node with --node"),
        },
    }
}

/// When nobody is there at all.
const START: &str = "start a node with `dht-node`, or name one that runs with --node";
const REACH: &str =
    "check that a node runs there and that UDP reaches it, or name another with --node";

/// What others sent may hold line breaks and control characters; an error is one line.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !c.is_control()).collect()
}

/// What people wrote, cut where it is too long to be repeated to them.
pub(crate) fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(ECHOED) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

/// Most characters of an input that an error repeats (guess: a line of a terminal).
const ECHOED: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Attempt;

    #[test]
    fn every_way_not_to_connect_has_its_own_next_step() {
        let addr = ([127, 0, 0, 1], 9).into();
        let next = |errors: Vec<AttemptError>| {
            let attempt = |error| Attempt { node: "127.0.0.1:9".parse().expect("one"), error };
            let error = ClientError::NoNode(errors.into_iter().map(attempt).collect());
            let Failure::Told { message, .. } = Failure::from(error) else { panic!("told") };
            assert!(message.matches("127.0.0.1:9").count() <= 1, "said twice: {message}");
            message
        };
        let ring = || AttemptError::Dial(DialError::OtherRingName { addr });
        let silent = || AttemptError::Dial(DialError::NoAnswer { addr });
        let closed = || AttemptError::Dial(DialError::NothingListens { addr });
        let version = DialError::OtherVersion { addr, ours: 2, theirs: 1 };
        let presented = dht_core::Id::from_u64(1);
        assert!(next(vec![ring()]).ends_with("with --ring"));
        assert!(next(vec![silent()]).contains("that UDP reaches it"));
        assert!(next(vec![closed()]).contains("start a node"));
        assert!(next(vec![version.into()]).contains("same version"));
        assert!(next(vec![AttemptError::WrongId { presented }]).contains("before the @"));
        assert!(next(vec![AttemptError::NoAddress]).contains("check the name"));
        let both = ClientError::NoNode(
            [silent(), ring()]
                .map(|error| Attempt { node: "h:1".parse().expect("one"), error })
                .into(),
        );
        assert!(next_step(&both).is_some_and(|next| next.contains("--ring")));
    }

    #[test]
    fn the_codes_are_those_of_the_contract() {
        let table = [
            (Exit::Done, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::NotFound, 3),
            (Exit::Unreachable, 4),
            (Exit::Conflict, 5),
            (Exit::Incomplete, 6),
            (Exit::Denied, 7),
            (Exit::Interrupted, 130),
        ];
        for (exit, code) in table {
            assert_eq!(exit as u8, code, "{exit:?}");
        }
    }

    #[test]
    fn every_failure_of_a_member_has_its_code() {
        let table = [
            (ClientErrorCode::Failed, 1),
            (ClientErrorCode::NoSpace, 1),
            (ClientErrorCode::Usage, 2),
            (ClientErrorCode::NotFound, 3),
            (ClientErrorCode::Unreachable, 4),
            (ClientErrorCode::NoQuorum, 4),
            (ClientErrorCode::UnknownOutcome, 4),
            (ClientErrorCode::NotMember, 4),
            (ClientErrorCode::Conflict, 5),
            (ClientErrorCode::Incomplete, 6),
            (ClientErrorCode::Denied, 7),
        ];
        for (code, exit) in table {
            let error = ClientError::Failed { code, message: String::new() };
            assert_eq!(kind_of(&error).exit() as u8, exit, "{code:?}");
        }
    }

    #[test]
    fn an_error_is_one_line_that_says_what_to_do() {
        let code = ClientErrorCode::Failed;
        let error = ClientError::Failed { code, message: "two\nlines\x1b[31m".to_owned() };
        let Failure::Told { message, .. } = Failure::from(error) else { panic!("told") };
        assert_eq!(message, "two lines[31m");
        let Failure::Told { kind, message } = Failure::from(ClientError::NoNode(Vec::new())) else {
            panic!("told")
        };
        assert_eq!(kind, Kind::Unreachable);
        assert!(message.contains("--node"), "{message}");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        let gone = ClientError::Output(io::ErrorKind::BrokenPipe.into());
        assert!(matches!(Failure::from(gone), Failure::ReaderGone));
        let full = ClientError::Output(io::ErrorKind::StorageFull.into());
        assert!(matches!(Failure::from(full), Failure::Told { kind: Kind::Io, .. }));
    }
}
