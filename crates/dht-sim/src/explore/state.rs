//! One state of a small world: a node at each place, the messages in flight, who waits where, and
//! what may still go wrong.

use super::fingerprint;
use super::letters::Letter;

/// Most places of a world.
pub(super) const MAX_PLACES: usize = 5;
/// Most messages in flight. A state with more is left out, and counted.
pub(super) const MAX_FLIGHT: usize = 28;
/// Most questions that wait for an answer where they were asked.
const MAX_OPEN: usize = 12;

/// Who is at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seat {
    /// Nobody yet.
    Free,
    /// A dead node, which lived so many lives.
    Dead { lives: u8 },
    /// This one.
    Runs(u32),
}

/// A question that was delivered and is not answered yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Open {
    pub(super) at: u8,
    pub(super) asker: u8,
    /// The asker's call; 0 if nobody waits for the answer any more.
    pub(super) rpc: u8,
}

/// A state of a small world.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct State {
    pub(super) seats: [Seat; MAX_PLACES],
    flight: [Letter; MAX_FLIGHT],
    flight_len: u8,
    open: [Open; MAX_OPEN],
    open_len: u8,
    pub(super) joins: u8,
    pub(super) failures: u8,
    pub(super) suspicions: u8,
    /// Something did not fit; the state is no true one.
    pub(super) is_overfull: bool,
}

impl State {
    pub(super) fn new(joins: u8, failures: u8, suspicions: u8) -> State {
        State {
            seats: [Seat::Free; MAX_PLACES],
            flight: [Letter::default(); MAX_FLIGHT],
            flight_len: 0,
            open: [Open::default(); MAX_OPEN],
            open_len: 0,
            joins,
            failures,
            suspicions,
            is_overfull: false,
        }
    }

    /// The node that runs at a place.
    pub(super) fn node(&self, place: usize) -> Option<u32> {
        match self.seats[place] {
            Seat::Runs(node) => Some(node),
            Seat::Free | Seat::Dead { .. } => None,
        }
    }

    /// The places where somebody runs, and who.
    pub(super) fn running(&self) -> impl Iterator<Item = (usize, u32)> + use<> {
        let seats = self.seats;
        (0..MAX_PLACES).filter_map(move |place| match seats[place] {
            Seat::Runs(node) => Some((place, node)),
            Seat::Free | Seat::Dead { .. } => None,
        })
    }

    pub(super) fn flight(&self) -> &[Letter] {
        &self.flight[..usize::from(self.flight_len)]
    }

    pub(super) fn open(&self) -> &[Open] {
        &self.open[..usize::from(self.open_len)]
    }

    /// Puts a message in flight, unless the very same one is.
    pub(super) fn post(&mut self, letter: Letter) {
        let Err(at) = self.flight().binary_search(&letter) else { return };
        let len = usize::from(self.flight_len);
        if len == MAX_FLIGHT {
            self.is_overfull = true;
            return;
        }
        self.flight.copy_within(at..len, at + 1);
        self.flight[at] = letter;
        self.flight_len += 1;
    }

    /// Takes one message out of the air.
    pub(super) fn take(&mut self, at: usize) -> Letter {
        let letter = self.flight[at];
        let len = usize::from(self.flight_len);
        self.flight.copy_within(at + 1..len, at);
        self.flight[len - 1] = Letter::default();
        self.flight_len -= 1;
        letter
    }

    /// Keeps only these messages in flight.
    pub(super) fn retain(&mut self, keeps: impl Fn(Letter) -> bool) {
        for at in (0..usize::from(self.flight_len)).rev() {
            if !keeps(self.flight[at]) {
                self.take(at);
            }
        }
    }

    /// Notes a question that waits.
    pub(super) fn note_open(&mut self, question: Open) {
        let len = usize::from(self.open_len);
        if len == MAX_OPEN {
            self.is_overfull = true;
            return;
        }
        self.open[len] = question;
        self.open_len += 1;
        self.open[..=len].sort();
    }

    /// Takes out the question of this asker at this place.
    pub(super) fn take_open(&mut self, at: usize, asker: usize) -> Option<Open> {
        let is_it = |held: &Open| usize::from(held.at) == at && usize::from(held.asker) == asker;
        let found = self.open().iter().position(is_it)?;
        Some(self.remove_open(found))
    }

    /// Drops the questions that wait at a place.
    pub(super) fn drop_open_at(&mut self, place: usize) {
        while let Some(at) = self.open().iter().position(|held| usize::from(held.at) == place) {
            self.remove_open(at);
        }
    }

    /// Nobody waits any more for the answers to these calls of one asker, given as bits.
    pub(super) fn abandon(&mut self, asker: usize, calls: u64) {
        let len = usize::from(self.open_len);
        for held in &mut self.open[..len] {
            if usize::from(held.asker) == asker && calls & (1 << held.rpc) != 0 {
                held.rpc = 0;
            }
        }
        self.open[..len].sort();
    }

    /// The state in as few numbers as possible.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        let seats = self.seats.iter().map(|seat| match seat {
            Seat::Free => 0,
            Seat::Dead { lives } => 1 + u64::from(*lives),
            Seat::Runs(node) => 256 + u64::from(*node),
        });
        let left = [self.joins, self.failures, self.suspicions, self.flight_len, self.open_len];
        let left = left.iter().fold(0, |all, part| (all << 8) | u64::from(*part));
        let pairs = self
            .flight()
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |all, letter| (all << 32) | u64::from(letter.0)));
        let open = self.open().chunks(3).map(|some| {
            let part = |all: u64, held: &Open| {
                (all << 16)
                    | (u64::from(held.at) << 12)
                    | (u64::from(held.asker) << 8)
                    | u64::from(held.rpc)
            };
            some.iter().fold(1, part)
        });
        seats.chain([left]).chain(pairs).chain(open)
    }

    pub(super) fn fingerprint(&self) -> u128 {
        fingerprint::of_words(self.words())
    }

    /// Writes the state down, shorter than it is in memory.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        for seat in self.seats {
            let number = match seat {
                Seat::Free => 0,
                Seat::Dead { lives } => 1 + u32::from(lives),
                Seat::Runs(node) => 256 + node,
            };
            to.extend(number.to_le_bytes());
        }
        to.extend([self.joins, self.failures, self.suspicions, self.flight_len, self.open_len]);
        self.flight().iter().for_each(|letter| to.extend(letter.0.to_le_bytes()));
        self.open().iter().for_each(|held| to.extend([held.at, held.asker, held.rpc]));
    }

    /// Reads back what [`State::write`] wrote, and moves on behind it.
    pub(super) fn read(from: &[u8], at: &mut usize) -> State {
        let mut take = |count: usize| {
            *at += count;
            &from[*at - count..*at]
        };
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, b| (all << 8) | u32::from(*b));
        let mut state = State::new(0, 0, 0);
        for seat in &mut state.seats {
            *seat = match number(take(4)) {
                0 => Seat::Free,
                lives @ 1..256 => Seat::Dead { lives: lives as u8 - 1 },
                node => Seat::Runs(node - 256),
            };
        }
        let [joins, failures, suspicions, flight_len, open_len] = *take(5) else { return state };
        (state.joins, state.failures, state.suspicions) = (joins, failures, suspicions);
        (state.flight_len, state.open_len) = (flight_len, open_len);
        for letter in &mut state.flight[..usize::from(flight_len)] {
            *letter = Letter(number(take(4)));
        }
        for held in &mut state.open[..usize::from(open_len)] {
            if let [at, asker, rpc] = *take(3) {
                *held = Open { at, asker, rpc };
            }
        }
        state
    }

    fn remove_open(&mut self, at: usize) -> Open {
        let held = self.open[at];
        let len = usize::from(self.open_len);
        self.open.copy_within(at + 1..len, at);
        self.open[len - 1] = Open::default();
        self.open_len -= 1;
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut state = State::new(3, 2, 1);
        state.seats[0] = Seat::Runs(70_000);
        state.seats[1] = Seat::Dead { lives: 2 };
        for n in [5, 3, 9, 3] {
            state.post(Letter(n));
        }
        state.note_open(Open { at: 1, asker: 0, rpc: 3 });
        state.note_open(Open { at: 0, asker: 1, rpc: 1 });
        let (mut bytes, mut at) = (vec![0xff], 1);
        state.write(&mut bytes);
        assert_eq!((State::read(&bytes, &mut at), at), (state, bytes.len()));
        assert_eq!(state.flight(), [Letter(3), Letter(5), Letter(9)], "in order, and each once");
    }

    #[test]
    fn order_of_arrival_does_not_show() {
        let mut states = [State::new(1, 1, 0), State::new(1, 1, 0)];
        for (state, order) in states.iter_mut().zip([[1, 2, 3], [3, 1, 2]]) {
            order.iter().for_each(|n| state.post(Letter(*n)));
            order.iter().for_each(|n| state.note_open(Open { at: *n as u8, asker: 0, rpc: 1 }));
            state.take(1);
            state.abandon(0, 1 << 1);
        }
        assert_eq!(states[0].fingerprint(), states[1].fingerprint());
    }

    #[test]
    fn too_much_is_noticed() {
        let mut state = State::new(0, 0, 0);
        (1..=MAX_FLIGHT as u32).for_each(|n| state.post(Letter(n)));
        assert!(!state.is_overfull);
        state.post(Letter(99));
        assert!(state.is_overfull);
    }
}
