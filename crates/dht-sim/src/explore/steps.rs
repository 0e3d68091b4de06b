//! What may happen next in a small world, and what comes of it.

use dht_core::message::ring::Request;
use dht_core::node::steer::Alarm;

use super::letters::{Body, Letter, Sort};
use super::local::{Alive, Flaw, Input, Locals};
use super::state::{Open, Seat, State};
use super::{Flight, Pace, Plan};

/// One thing that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The message at this position among those in flight arrives.
    Deliver(u8),
    /// A call of this node ends without an answer.
    Expire { at: u8, rpc: u8 },
    /// A timer of this node fires.
    Fire { at: u8, alarm: Alarm },
    /// This node asks that one for a place; if it did not run, it starts.
    Seek { at: u8, host: u8 },
    /// This node dies.
    Fail(u8),
    /// This node takes that one for dead, which it is not.
    Suspect { at: u8, about: u8 },
    /// This node pings that one, whom it remembers.
    Probe { at: u8, about: u8 },
}

impl Step {
    /// As a number, to be kept for the way back.
    pub(super) fn pack(self) -> u32 {
        let pack = |kind: u32, a: u8, b: u8| (kind << 16) | (u32::from(a) << 8) | u32::from(b);
        match self {
            Step::Deliver(at) => pack(0, at, 0),
            Step::Expire { at, rpc } => pack(1, at, rpc),
            Step::Fire { at, alarm } => pack(2, at, alarm_number(alarm) as u8),
            Step::Seek { at, host } => pack(3, at, host),
            Step::Fail(at) => pack(4, at, 0),
            Step::Suspect { at, about } => pack(5, at, about),
            Step::Probe { at, about } => pack(6, at, about),
        }
    }

    pub(super) fn unpack(packed: u32) -> Step {
        let (a, b) = ((packed >> 8) as u8, packed as u8);
        match packed >> 16 {
            0 => Step::Deliver(a),
            1 => Step::Expire { at: a, rpc: b },
            2 => Step::Fire { at: a, alarm: numbered_alarm(b) },
            3 => Step::Seek { at: a, host: b },
            4 => Step::Fail(a),
            5 => Step::Suspect { at: a, about: b },
            _ => Step::Probe { at: a, about: b },
        }
    }
}

/// Numbers an alarm for packed steps and for the keys of what was worked out before.
pub(super) fn alarm_number(alarm: Alarm) -> u64 {
    match alarm {
        Alarm::Stabilize => 0,
        Alarm::Push => 1,
        Alarm::AbandonQuery => 2,
        Alarm::GiveUpRoutes => 3,
        Alarm::SeekPlace => 4,
        Alarm::MergeProbe => 5,
        Alarm::RetryLookup(number) => 6 + number,
    }
}

fn numbered_alarm(number: u8) -> Alarm {
    match number {
        0 => Alarm::Stabilize,
        1 => Alarm::Push,
        2 => Alarm::AbandonQuery,
        3 => Alarm::GiveUpRoutes,
        4 => Alarm::SeekPlace,
        5 => Alarm::MergeProbe,
        number => Alarm::RetryLookup(u64::from(number) - 6),
    }
}

/// The nodes, and what they can do to each other.
#[derive(Debug)]
pub(super) struct World {
    pub(super) locals: Locals,
    places: usize,
    /// Entries of a list.
    pub(super) list: usize,
    /// Whether a dead node may come back in a new life.
    pub(super) rejoins: bool,
    /// How many false verdicts there are in all.
    pub(super) suspicions: u8,
    pub(super) flight: Flight,
    /// Whether any kind of message takes no time.
    has_quick: bool,
    /// Filled with every step, while somebody listens.
    pub(super) log: Option<Vec<String>>,
}

impl World {
    /// A world without a state.
    pub(super) fn new(plan: &Plan) -> World {
        let Plan { list, joins, rejoins, false_suspicions: suspicions, flight, planted, .. } =
            *plan;
        let Flight { questions, notifications, candidates, pushes, .. } = flight;
        World {
            locals: Locals::new(list, flight, planted),
            places: usize::from(joins) + 1,
            list: usize::from(list),
            rejoins,
            suspicions,
            flight,
            has_quick: [questions, notifications, candidates, pushes].contains(&Pace::AtOnce),
            log: None,
        }
    }

    /// The state in which the first node has founded its ring.
    pub(super) fn first(&mut self, joins: u8, failures: u8, suspicions: u8) -> State {
        let mut state = State::new(joins, failures, suspicions);
        let node = self.locals.fresh(0, 0);
        state.seats[0] = Seat::Runs(node);
        self.act(&mut state, 0, Input::Found);
        state
    }

    /// Everything that may happen next.
    pub(super) fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::with_capacity(16);
        let alive = self.alive(state);
        let may_begin = state.flight().len() < usize::from(self.flight.in_flight);
        for (at, letter) in state.flight().iter().enumerate() {
            if self.can_arrive(state, *letter) {
                steps.push(Step::Deliver(at as u8));
            }
        }
        for (place, node) in state.running() {
            let at = place as u8;
            let summary = self.locals.summary(node);
            for (rpc, to, _) in &summary.waiting {
                if !alive.runs(usize::from(*to)) || is_lost(state, place, *rpc) {
                    steps.push(Step::Expire { at, rpc: *rpc });
                }
            }
            for alarm in &summary.alarms {
                match alarm {
                    // While a query is under way it would only run again right after.
                    Alarm::Stabilize
                        if may_begin
                            && summary.is_member()
                            && !summary.is_in_doubt
                            && self.is_rested(state, place) =>
                    {
                        steps.push(Step::Fire { at, alarm: *alarm });
                    }
                    Alarm::AbandonQuery | Alarm::GiveUpRoutes | Alarm::RetryLookup(_) => {
                        steps.push(Step::Fire { at, alarm: *alarm });
                    }
                    Alarm::SeekPlace if may_begin && summary.seeks => {
                        let hosts = self.hosts(state, summary).map(|host| host as u8);
                        steps.extend(hosts.map(|host| Step::Seek { at, host }));
                    }
                    Alarm::Stabilize | Alarm::SeekPlace | Alarm::Push | Alarm::MergeProbe => {}
                }
            }
            if state.failures > 0 && self.may_fail(state, place) {
                steps.push(Step::Fail(at));
            }
            if state.suspicions > 0 && summary.is_member() {
                let near = summary.successors.iter().chain(&summary.predecessor);
                let mut near: Vec<u8> = near.map(|held| held.0).collect();
                near.sort();
                near.dedup();
                near.retain(|about| alive.runs(usize::from(*about)));
                steps.extend(near.into_iter().map(|about| Step::Suspect { at, about }));
            }
        }
        if may_begin && state.joins > 0 {
            for place in (0..self.places).filter(|place| self.may_start(state, *place)) {
                let fits = |(_, node): &(usize, u32)| self.locals.summary(*node).would_host(place);
                let hosts = state.running().filter(fits).map(|(host, _)| host as u8);
                steps.extend(hosts.map(|host| Step::Seek { at: place as u8, host }));
            }
        }
        steps
    }

    /// Lets one thing happen. What a node did wrong, if it did.
    pub(super) fn apply(&mut self, state: &mut State, step: Step) -> Option<(usize, Flaw)> {
        self.note(state, step);
        let mut flaw = match step {
            Step::Deliver(at) => {
                let letter = state.take(usize::from(at));
                self.deliver(state, letter)
            }
            Step::Expire { at, rpc } => self.act(state, at.into(), Input::Expire { rpc }),
            Step::Fire { at, alarm } => self.act(state, at.into(), Input::Fire(alarm)),
            Step::Seek { at, host } => self.seek(state, at.into(), host.into()),
            Step::Fail(at) => {
                self.fail(state, at.into());
                None
            }
            Step::Suspect { at, about } => {
                state.suspicions -= 1;
                let life = self.life(state, about.into());
                self.act(state, at.into(), Input::Bury { at: about.into(), life })
            }
            Step::Probe { at, about } => {
                let life = self.life(state, about.into());
                self.act(state, at.into(), Input::Probe { at: about.into(), life })
            }
        };
        while let Some(found) = self.act_at_once(state) {
            flaw = flaw.or(found);
        }
        flaw
    }

    /// How many believe that nobody else is there.
    pub(super) fn count_alone(&self, state: &State) -> usize {
        state.running().filter(|(_, node)| self.locals.summary(*node).alone).count()
    }

    pub(super) fn alive(&self, state: &State) -> Alive {
        let mut alive = Alive::default();
        for (place, node) in state.running() {
            alive.running |= 1 << place;
            let summary = self.locals.summary(node);
            if !summary.is_member() && summary.seeks && !summary.is_host() {
                alive.outside |= 1 << place;
            }
        }
        alive
    }

    /// Whether this message may arrive now. A second question of one asker is not delivered while
    /// its first one waits at the same place.
    pub(super) fn can_arrive(&self, state: &State, letter: Letter) -> bool {
        let asks = letter.sort() == Sort::Ask;
        let waits = |held: &Open| {
            usize::from(held.at) == letter.to() && usize::from(held.asker) == letter.from()
        };
        !(asks && state.open().iter().any(waits))
    }

    /// Whether this message arrives before anything else happens.
    fn is_quick(&self, letter: Letter) -> bool {
        let Flight { questions, notifications, candidates, pushes, .. } = self.flight;
        let pace = match letter.sort() {
            Sort::Ask => questions,
            Sort::Tell => match self.locals.bodies.get(letter.body()) {
                Body::Tell { request: Request::Notify { .. }, .. } => notifications,
                Body::Tell { request: Request::Candidate { .. }, .. } => candidates,
                Body::Tell { request: Request::Push(_), .. } => pushes,
                _ => Pace::Slow,
            },
            Sort::Answer | Sort::Refusal => Pace::Slow,
        };
        pace == Pace::AtOnce
    }

    fn seek(&mut self, state: &mut State, at: usize, host: usize) -> Option<(usize, Flaw)> {
        if state.node(at).is_none() {
            let life = match state.seats[at] {
                Seat::Dead { lives } => u64::from(lives),
                Seat::Free | Seat::Runs(_) => 0,
            };
            state.joins -= 1;
            state.seats[at] = Seat::Runs(self.locals.fresh(at, life));
        }
        let life = self.life(state, host);
        let flaw = self.act(state, at, Input::Seek { at: host, life });
        // The question changes nothing before it arrives, and its asker does nothing but wait: so
        // it arrives at once, or else would be asked later.
        let is_it = |letter: &Letter| {
            letter.sort() == Sort::Ask
                && letter.from() == at
                && letter.to() == host
                && self.locals.bodies.get(letter.body()).is_join()
        };
        let Some(asked) = state.flight().iter().position(is_it) else { return flaw };
        if !self.can_arrive(state, state.flight()[asked]) {
            return flaw;
        }
        let letter = state.take(asked);
        flaw.or(self.deliver(state, letter))
    }

    fn fail(&mut self, state: &mut State, at: usize) {
        let lives = self.life(state, at) as u8 + 1;
        state.failures -= 1;
        state.seats[at] = Seat::Dead { lives };
        // Questions of the dead bring nothing but a sign of life, which what it told brings too.
        state.retain(|letter| letter.to() != at && letter.asker() != Some(at));
        state.drop_open_at(at);
        state.abandon(at, u64::MAX);
    }

    fn deliver(&mut self, state: &mut State, letter: Letter) -> Option<(usize, Flaw)> {
        let (from, to, rpc, body) = (letter.from(), letter.to(), letter.rpc(), letter.body());
        match letter.sort() {
            Sort::Tell => self.act(state, to, Input::Hear { from, body }),
            Sort::Ask => {
                state.note_open(Open { at: to as u8, asker: from as u8, rpc });
                self.act(state, to, Input::Hear { from, body })
            }
            Sort::Answer | Sort::Refusal => self.act(state, to, Input::Answer { from, rpc, body }),
        }
    }

    /// Lets one node do something.
    pub(super) fn act(
        &mut self,
        state: &mut State,
        at: usize,
        input: Input,
    ) -> Option<(usize, Flaw)> {
        let node = state.node(at)?;
        let alive = self.alive(state);
        let number = self.locals.step(node, input, alive);
        let outcome = self.locals.outcome(number);
        state.seats[at] = Seat::Runs(outcome.next);
        let ended = outcome.ended;
        if ended != 0 {
            // A question that nobody waits for brings nothing but a sign of life.
            let is_over =
                |letter: Letter| letter.asker() == Some(at) && ended & (1 << letter.rpc()) != 0;
            state.abandon(at, ended);
            state.retain(|letter| !is_over(letter));
        }
        outcome.letters.iter().for_each(|letter| state.post(*letter));
        for (asker, body) in &outcome.replies {
            let Some(question) = state.take_open(at, *asker) else { continue };
            if question.rpc != 0 && state.node(*asker).is_some() {
                state.post(self.locals.bodies.letter(*body, at, *asker, question.rpc));
            }
        }
        outcome.flaw.map(|flaw| (at, flaw))
    }

    /// What need not wait: what the plan lets arrive at once; and, since one that looks for a place
    /// does nothing meanwhile, a refusal, and the silence of a dead host.
    fn act_at_once(&mut self, state: &mut State) -> Option<Option<(usize, Flaw)>> {
        if self.has_quick {
            let is_quick =
                |letter: &Letter| self.is_quick(*letter) && self.can_arrive(state, *letter);
            if let Some(at) = state.flight().iter().position(is_quick) {
                let letter = state.take(at);
                return Some(self.deliver(state, letter));
            }
        }
        for (place, node) in state.running() {
            let summary = self.locals.summary(node);
            let Some((rpc, ..)) = summary.waiting.iter().find(|(_, _, joins)| *joins) else {
                continue;
            };
            let rpc = *rpc;
            let is_refusal =
                |letter: &Letter| letter.sort() == Sort::Refusal && letter.is_of(place, rpc);
            if let Some(at) = state.flight().iter().position(is_refusal) {
                let letter = state.take(at);
                return Some(self.deliver(state, letter));
            }
            if is_lost(state, place, rpc) {
                return Some(self.act(state, place, Input::Expire { rpc }));
            }
        }
        None
    }

    fn life(&self, state: &State, place: usize) -> u64 {
        state.node(place).map_or(0, |node| self.locals.summary(node).life)
    }
}

/// Whether nothing in the world will answer this call.
pub(super) fn is_lost(state: &State, asker: usize, rpc: u8) -> bool {
    let waits = |held: &Open| usize::from(held.asker) == asker && held.rpc == rpc;
    !state.flight().iter().any(|letter| letter.is_of(asker, rpc)) && !state.open().iter().any(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(joins: u8, failures: u8) -> (World, State) {
        let plan = Plan { joins, failures, ..Plan::default() };
        let mut world = World::new(&plan);
        let state = world.first(joins, failures, 0);
        (world, state)
    }

    /// Lets one join, and everything arrive that this causes.
    fn join(world: &mut World, state: &mut State, at: u8, host: u8) {
        world.apply(state, Step::Seek { at, host });
        while let Some(step) = world.draining_step(state) {
            world.apply(state, step);
        }
    }

    #[test]
    fn steps_survive_packing() {
        let (at, rpc, host, about) = (3, 9, 1, 2);
        let alarms = [Alarm::Stabilize, Alarm::AbandonQuery, Alarm::RetryLookup(4)];
        let fires = alarms.map(|alarm| Step::Fire { at, alarm });
        let others = [
            Step::Deliver(27),
            Step::Expire { at, rpc },
            Step::Seek { at, host },
            Step::Fail(at),
            Step::Suspect { at, about },
            Step::Probe { at, about },
        ];
        for step in fires.into_iter().chain(others) {
            assert_eq!(Step::unpack(step.pack()), step);
        }
    }

    #[test]
    fn a_ring_grows_and_is_ideal() {
        let (mut world, mut state) = world(3, 0);
        for (at, host) in [(2, 0), (1, 0), (3, 2)] {
            join(&mut world, &mut state, at, host);
        }
        let (repair, ideal) = world.repair(&state, &mut Default::default());
        assert_eq!(repair, super::super::fair::Repair::ByUpkeep);
        assert!(world.is_ideal(&ideal));
        let steps = world.steps(&ideal);
        assert_eq!(steps.len(), 4, "nothing is left to do but STABILIZE: {steps:?}");
    }

    #[test]
    fn the_last_one_and_the_last_live_entry_may_not_die() {
        let (mut world, mut state) = world(2, 3);
        assert!(!world.may_fail(&state, 0), "the only node");
        join(&mut world, &mut state, 1, 0);
        assert!(world.may_fail(&state, 0) && world.may_fail(&state, 1), "one is left");
        // 2 has its answer, which names 1 and 0, on the way; nobody knows it.
        world.apply(&mut state, Step::Seek { at: 2, host: 1 });
        assert!(world.may_fail(&state, 2) && world.may_fail(&state, 0));
        world.apply(&mut state, Step::Fail(0));
        assert!(!world.may_fail(&state, 1), "the joiner would know nobody");
    }

    /// 1 takes 0 for dead and lets 2 in: 1 alone knows of both parts.
    #[test]
    fn the_only_one_that_both_parts_know_may_not_die() {
        let plan = Plan { joins: 2, failures: 1, false_suspicions: 1, ..Plan::default() };
        let mut world = World::new(&plan);
        let mut state = world.first(2, 1, 1);
        join(&mut world, &mut state, 1, 0);
        world.apply(&mut state, Step::Suspect { at: 1, about: 0 });
        let isolated = state;
        join(&mut world, &mut state, 2, 1);
        assert!(!world.may_fail(&state, 1), "0 and 2 never heard of each other");
        assert!(world.may_fail(&state, 0), "1 and 2 know each other");
        assert!(world.may_fail(&isolated, 1), "only 0 is left");
    }

    #[test]
    fn what_a_dead_node_asked_is_not_answered() {
        let (mut world, mut state) = world(1, 1);
        world.apply(&mut state, Step::Seek { at: 1, host: 0 });
        assert_eq!(state.flight().len(), 1, "the welcome");
        world.apply(&mut state, Step::Fail(1));
        assert!(state.flight().is_empty());
        assert_eq!(world.alive(&state), Alive { running: 1, outside: 0 });
    }
}
