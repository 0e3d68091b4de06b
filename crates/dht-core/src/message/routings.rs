//! Which ways of routing a node keeps state for.

use super::ring::Routing;

/// A set of routings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routings(u8);

impl Routings {
    /// Every routing there is.
    pub const ALL: Routings = Routings(0b1111);
    /// What every member has state for: its links.
    pub const LEAST: Routings = Routings(1);

    /// Whether it is among them.
    pub fn contains(self, routing: Routing) -> bool {
        self.0 & bit(routing) != 0
    }

    /// These and this one.
    #[must_use]
    pub fn with(self, routing: Routing) -> Routings {
        Routings(self.0 | bit(routing))
    }

    /// Those in it, in the order of their state: least first.
    pub fn iter(self) -> impl Iterator<Item = Routing> {
        Routing::ALL.into_iter().filter(move |routing| self.contains(*routing))
    }
}

impl FromIterator<Routing> for Routings {
    /// Those named, and `successors`: its state is what keeps the ring together.
    fn from_iter<I: IntoIterator<Item = Routing>>(routings: I) -> Routings {
        routings.into_iter().fold(Routings::LEAST, Routings::with)
    }
}

fn bit(routing: Routing) -> u8 {
    match routing {
        Routing::Successors => 1,
        Routing::BothWays => 1 << 1,
        Routing::Fingers => 1 << 2,
        Routing::Full => 1 << 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_are_always_kept() {
        let none: Routings = [].into_iter().collect();
        assert_eq!(none, Routings::LEAST);
        let two: Routings = [Routing::Full, Routing::BothWays].into_iter().collect();
        let held: Vec<Routing> = two.iter().collect();
        assert_eq!(held, [Routing::Successors, Routing::BothWays, Routing::Full]);
        assert!(!two.contains(Routing::Fingers));
        assert!(Routing::ALL.into_iter().all(|routing| Routings::ALL.contains(routing)));
    }
}
