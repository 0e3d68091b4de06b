//! Drives a world: Poisson processes of joins, deaths, lookups, writes and reads, and an onlooker
//! that knows the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dht_core::event::{OpId, Purpose};
use dht_core::message::client::{LookupReport, NodeState};
use dht_core::message::ring::Routing;
use dht_core::{Contact, Id, Instant, Notice};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::files::Files;
use super::report::{ChurnReport, Ending, Fault, Tally};
use super::truth::Truth;
use super::{ChurnConfig, ChurnError, ChurnProgress};
use crate::hops::{random_id, random_ids};
use crate::invariants::{Violation, one_live_successor, one_ring};
use crate::member::mix;
use crate::traffic::{Counts, Traffic};
use crate::world::{World, WorldConfig};

/// Everything of one run.
struct Driver<'a> {
    config: &'a ChurnConfig,
    world: World,
    rng: Pcg64Mcg,
    truth: Truth,
    /// All that run, in no order.
    living: Vec<u64>,
    next_number: u64,
    arriving: Vec<Arrival>,
    lookups: BTreeMap<OpId, Asked>,
    files: Files,
    tally: Tally,
    /// Members without a live entry at the last look.
    dead_lists: BTreeSet<Id>,
    /// When each process has its next event.
    due: [Instant; Process::ALL.len()],
    last_second: Instant,
}

/// One that has no settled place yet.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    n: u64,
    id: Id,
    is_member: bool,
    /// When it is told again whom to ask.
    retry: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    asker: u64,
    key: Id,
    began: Instant,
}

/// What happens again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Process {
    Join,
    Death,
    Lookup,
    Write,
    Read,
    /// A look at the ring, every second.
    Look,
}

impl Process {
    const ALL: [Process; 6] = [
        Process::Join,
        Process::Death,
        Process::Lookup,
        Process::Write,
        Process::Read,
        Process::Look,
    ];
}

pub(super) fn run(
    config: &ChurnConfig,
    mut progress: impl FnMut(ChurnProgress),
) -> Result<ChurnReport, ChurnError> {
    let mut driver = Driver::form(config, &mut progress)?;
    let began = driver.world.now();
    let measured = began.after(config.warm_up);
    let end = measured.after(config.span);
    let mut tell = |what, now: Instant, of: Instant| {
        let seconds = |span: Duration| span.as_secs();
        progress(ChurnProgress {
            what,
            done_s: seconds(now.since(began)),
            of_s: seconds(of.since(began)),
        });
    };
    driver.start_processes();
    driver.run_until(measured, |now| tell("churn", now, end));
    driver.tally = Tally::default();
    let before = driver.traffic();
    driver.run_until(end, |now| tell("churn", now, end));
    let traffic = driver.traffic().since(&before);
    driver.finish_lookups();
    let mended_after_s = driver.calm_down();
    let acked_lost = driver.files.count_lost(&mut driver.world, &mut driver.rng);
    let ending = Ending {
        seconds: config.span.as_secs_f64(),
        traffic,
        mended_after_s,
        acked_lost,
        files: driver.files.counts(),
        events: driver.world.events(),
    };
    Ok(driver.tally.report(config, ending))
}

impl<'a> Driver<'a> {
    fn form(
        config: &'a ChurnConfig,
        progress: &mut impl FnMut(ChurnProgress),
    ) -> Result<Driver<'a>, ChurnError> {
        let mut setup = WorldConfig::new(config.node(), config.seed);
        setup.plan = config.plan;
        setup.kept_lines = 0;
        let mut world = World::new(setup).map_err(ChurnError::Node)?;
        world.count_traffic(Traffic::new(config.path));
        // A joiner is taken within one period at its longest; verdicts about dead heads come first.
        let grace = config.stabilize_every * 3 / 2 + world.config().wait_for_verdict();
        let mut driver = Driver {
            config,
            rng: Pcg64Mcg::seed_from_u64(mix(&[config.seed, 2])),
            truth: Truth::new(grace, config.lookup_timeout + SLACK),
            living: Vec::new(),
            next_number: 0,
            arriving: Vec::new(),
            lookups: BTreeMap::new(),
            files: Files::default(),
            tally: Tally::default(),
            dead_lists: BTreeSet::new(),
            due: [Instant::NEVER; Process::ALL.len()],
            last_second: world.now(),
            world,
        };
        let of_s = config.nodes as u64;
        progress(ChurnProgress { what: "growing the ring", done_s: 0, of_s });
        driver.grow();
        progress(ChurnProgress { what: "growing the ring", done_s: of_s, of_s });
        let limit = config.stabilize_every * 20 + Duration::from_secs(60);
        if driver.wait_until_ideal(limit).is_none() {
            return Err(ChurnError::NotFormed { seconds: limit.as_secs() });
        }
        if config.routing == Routing::Full {
            driver.fill_maps()?;
        }
        Ok(driver)
    }

    /// Everybody has heard of everybody who was there from the beginning.
    fn fill_maps(&mut self) -> Result<(), ChurnError> {
        let end = self.world.now().after(FILLING_LIMIT);
        while !self.world.maps_are_whole() {
            if self.world.now() >= end {
                return Err(ChurnError::NotFormed { seconds: FILLING_LIMIT.as_secs() });
            }
            self.world.run_for(Duration::from_secs(1));
        }
        Ok(())
    }

    /// An ideal ring of those that are there from the beginning.
    fn grow(&mut self) {
        let ids = random_ids(self.config.nodes, &mut self.rng);
        self.next_number = ids.len() as u64;
        self.living = (0..self.next_number).collect();
        let nodes: Vec<(u64, Id)> = self.living.iter().copied().zip(ids).collect();
        self.world.grow(nodes.clone());
        for (_, id) in nodes {
            self.truth.joined(self.world.now(), id);
            self.truth.settled(self.world.now(), id);
        }
    }

    fn start_processes(&mut self) {
        for process in Process::ALL {
            self.due[process as usize] = self.draw_due(process);
        }
    }

    /// Lets everything happen up to a moment.
    fn run_until(&mut self, end: Instant, mut tell: impl FnMut(Instant)) {
        while self.world.now() < end {
            let next = self.due.iter().copied().min().unwrap_or(end).min(end);
            self.run_quietly(next);
            for process in Process::ALL {
                if self.due[process as usize] <= self.world.now() && next < end {
                    self.due[process as usize] = self.draw_due(process);
                    self.happen(process);
                    if process == Process::Look {
                        tell(self.world.now());
                    }
                }
            }
        }
    }

    /// Lets time pass up to a moment without anybody coming or going.
    fn run_quietly(&mut self, until: Instant) {
        while self.world.now() < until {
            let arriving = &self.arriving;
            let has_news = |world: &World| {
                world.has_outcomes() || arriving.iter().any(|held| held.has_moved(world))
            };
            self.world.run_while(until, has_news);
            self.note_arrivals();
            for (op, notice) in self.world.take_outcomes() {
                self.on_outcome(op, notice);
            }
        }
    }

    fn happen(&mut self, process: Process) {
        match process {
            Process::Join => self.join(),
            Process::Death => {
                self.die();
                if self.config.paired {
                    self.join();
                }
            }
            Process::Lookup => self.look_up(),
            Process::Write => {
                if let Some(by) = self.draw_member() {
                    self.files.write(&mut self.world, by);
                }
            }
            Process::Read => {
                if let Some(by) = self.draw_member() {
                    self.files.read(&mut self.world, by, &mut self.rng);
                }
            }
            Process::Look => self.look(),
        }
    }

    fn join(&mut self) {
        // Nobody can join where there is nobody to join through.
        let Some(via) = self.draw_host() else { return };
        let (n, id) = (self.next_number, random_id(&mut self.rng));
        self.world.join_at(n, id, via);
        self.next_number += 1;
        self.living.push(n);
        let retry = self.world.now().after(RETRY_EVERY);
        self.arriving.push(Arrival { n, id, is_member: false, retry });
        self.tally.joins += 1;
        self.note_arrivals();
    }

    fn die(&mut self) {
        if self.living.len() < 2 {
            return;
        }
        let n = self.living.swap_remove(self.rng.random_range(0..self.living.len()));
        let id = self.world.id_of(n).unwrap_or_default();
        self.truth.ended(self.world.now(), id);
        self.arriving.retain(|held| held.n != n);
        let orphans = self.lookups.extract_if(.., |_, held| held.asker == n);
        let orphans: Vec<Asked> = orphans.map(|(_, held)| held).collect();
        for orphan in orphans {
            self.tally.orphaned += 1;
            self.unwant(orphan.key);
        }
        self.files.died(n);
        self.world.fail(n);
        self.world.bury(n);
        self.tally.deaths += 1;
        self.find_dead_lists();
    }

    fn look_up(&mut self) {
        let Some(asker) = self.draw_member() else { return };
        let (key, began) = (random_id(&mut self.rng), self.world.now());
        if let Some(traffic) = self.world.traffic_mut() {
            traffic.want(key);
        }
        let op = self.world.look_up(asker, key, None, Purpose::Client);
        self.lookups.insert(op, Asked { asker, key, began });
    }

    fn on_outcome(&mut self, op: OpId, notice: Notice) {
        if self.files.ended(op, &notice) {
            return;
        }
        let (Some(asked), Notice::Found { report, .. }) = (self.lookups.remove(&op), notice) else {
            return;
        };
        self.unwant(asked.key);
        self.judge(asked, &report);
    }

    fn judge(&mut self, asked: Asked, report: &LookupReport) {
        let now = self.world.now();
        self.tally.timeouts.add(report.timeouts as f64);
        let gave_up = report.handed.as_ref().is_some_and(|handed| handed.gave_up.is_some());
        self.tally.gave_up += u64::from(gave_up);
        let Some(owner) = &report.owner else {
            self.tally.failed += 1;
            self.tally.first_tries.add(0.0);
            return self.add_fault("failed", asked, report);
        };
        self.tally.hops.add(report.hops.into());
        self.tally.histogram.record(report.hops);
        self.tally.latencies_us.push(report.elapsed_us);
        let is_right = self.truth.is_right(asked.key, owner.id, asked.began, now);
        let is_first = is_right && report.hops <= 1 && report.timeouts == 0;
        self.tally.first_tries.add(f64::from(u8::from(is_first)));
        if !is_right {
            self.tally.wrong += 1;
            self.add_fault("wrong", asked, report);
        }
    }

    fn add_fault(&mut self, kind: &'static str, asked: Asked, report: &LookupReport) {
        let name = |contact: &Contact| match self.world.number_at(contact.id) {
            Some(n) => n.to_string(),
            None => format!("dead {:?}", contact.id),
        };
        let path: Vec<String> = report.path.iter().map(|step| name(&step.contact)).collect();
        let detours: Vec<String> = report
            .detours
            .iter()
            .map(|held| format!("{} {:?}", name(&held.contact), held.reason))
            .collect();
        let handed = report.handed.as_ref().map_or(String::new(), |handed| {
            let places = handed.path.iter().map(|step| self.world.number_at(step.place.id));
            let silent = handed.detours.iter().map(|held| self.world.number_at(held.place.id));
            let (places, silent): (Vec<_>, Vec<_>) = (places.collect(), silent.collect());
            format!("; handed on to {places:?}, past {silent:?}, gave up {:?}", handed.gave_up)
        });
        let text = format!(
            "failure {:?}, owner {:?}, {} hops, {} time-outs, {} ms; path {}; detours {}{handed}",
            report.failure,
            report.owner.as_ref().map(&name),
            report.hops,
            report.timeouts,
            report.elapsed_us / 1000,
            path.join(" "),
            detours.join(", ")
        );
        self.tally.add_fault(Fault {
            kind,
            at_s: self.world.elapsed_us() as f64 / 1e6,
            asker: asked.asker,
            key: asked.key.to_string(),
            report: text,
        });
    }

    /// The ring at the end of a second.
    fn look(&mut self) {
        let now = self.world.now();
        self.tally.population.add(self.living.len() as f64);
        let is_broken = {
            let links = self.world.links();
            one_ring::rings(links).len() > 1 || !one_ring::check(links).is_empty()
        };
        self.tally.ring_breaks += u64::from(is_broken && !self.tally.is_broken);
        self.tally.broken_seconds += u64::from(is_broken);
        self.tally.is_broken = is_broken;
        self.find_dead_lists();
        self.find_lost(now);
        self.last_second = now;
    }

    /// Whose list has nobody alive left: from then on no protocol of lists promises anything.
    fn find_dead_lists(&mut self) {
        let lost = one_live_successor::check(self.world.links());
        let lost: BTreeSet<Id> = lost.iter().filter_map(Violation::node).collect();
        let is_new = |id: &&Id| !self.dead_lists.contains(*id);
        self.tally.dead_lists += lost.iter().filter(is_new).count() as u64;
        self.dead_lists = lost;
    }

    /// Who lost its place since the last look owned nothing any more, and has to be let in again.
    fn find_lost(&mut self, now: Instant) {
        let world = &self.world;
        let is_arriving = |n: u64| self.arriving.iter().any(|held| held.n == n);
        let lost: Vec<u64> = self
            .living
            .iter()
            .copied()
            .filter(|n| !world.is_member(*n) && !is_arriving(*n))
            .collect();
        for n in lost {
            let id = self.world.id_of(n).unwrap_or_default();
            self.truth.ended(self.last_second, id);
            let retry = now.after(RETRY_EVERY);
            self.arriving.push(Arrival { n, id, is_member: false, retry });
        }
    }

    fn note_arrivals(&mut self) {
        let now = self.world.now();
        for mut held in std::mem::take(&mut self.arriving) {
            if !held.is_member && self.world.is_member(held.n) {
                held.is_member = true;
                self.truth.joined(now, held.id);
            }
            if held.is_member && is_taken(&self.world, held.id) {
                self.truth.settled(now, held.id);
                continue;
            }
            if !held.is_member && now >= held.retry {
                // Whom it was told of may have died.
                held.retry = now.after(RETRY_EVERY);
                if let Some(via) = self.draw_host() {
                    self.world.join(held.n, via);
                }
            }
            self.arriving.push(held);
        }
    }

    fn unwant(&mut self, key: Id) {
        if let Some(traffic) = self.world.traffic_mut() {
            traffic.drop_want(key);
        }
    }

    /// Members still come and go until every lookup that was asked has ended.
    fn finish_lookups(&mut self) {
        for process in [Process::Lookup, Process::Write, Process::Read] {
            self.due[process as usize] = Instant::NEVER;
        }
        let limit = self.world.now().after(self.config.lookup_timeout + SLACK);
        while self.world.now() < limit && (!self.lookups.is_empty() || self.files.is_waiting()) {
            let (deaths, joins) = (self.tally.deaths, self.tally.joins);
            self.run_until(self.world.now().after(Duration::from_millis(100)), |_| {});
            (self.tally.deaths, self.tally.joins) = (deaths, joins);
        }
    }

    /// Nobody comes or goes any more. Seconds until everything is ideal; `None`: it never is.
    fn calm_down(&mut self) -> Option<f64> {
        self.wait_until_ideal(self.config.stabilize_every * 20 + Duration::from_secs(120))
    }

    fn wait_until_ideal(&mut self, limit: Duration) -> Option<f64> {
        let began = self.world.now();
        let pause = (self.config.stabilize_every / 4).max(Duration::from_millis(250));
        while self.world.now().since(began) <= limit {
            let all = self.world.running();
            let is_ideal = self.arriving.is_empty()
                && all.iter().all(|n| self.world.is_member(*n))
                && self.world.flaws_of_ring(&all).is_empty();
            if is_ideal {
                return Some(self.world.now().since(began).as_secs_f64());
            }
            self.run_quietly(self.world.now().after(pause));
        }
        None
    }

    fn traffic(&mut self) -> Counts {
        let now = self.world.now();
        self.world.traffic_mut().map(|traffic| traffic.counts(now)).unwrap_or_default()
    }

    /// A random one of those that have a place.
    fn draw_member(&mut self) -> Option<u64> {
        for _ in 0..DRAWS {
            if self.living.is_empty() {
                return None;
            }
            let n = self.living[self.rng.random_range(0..self.living.len())];
            if self.world.is_member(n) {
                return Some(n);
            }
        }
        self.living.iter().copied().find(|n| self.world.is_member(*n))
    }

    /// One that lets others in: a member, or where there is none, one that has lost all its neighbours.
    fn draw_host(&mut self) -> Option<u64> {
        let is_isolated = |world: &World, n| {
            world.snapshot(n).is_some_and(|held| held.state == NodeState::Isolated)
        };
        self.draw_member()
            .or_else(|| self.living.iter().copied().find(|n| is_isolated(&self.world, *n)))
    }

    fn draw_due(&mut self, process: Process) -> Instant {
        let rate = match process {
            Process::Join if self.config.paired => 0.0,
            Process::Join | Process::Death => self.config.rate,
            Process::Lookup => self.config.lookup_rate,
            Process::Write | Process::Read => self.config.write_rate,
            Process::Look => return self.world.now().after(Duration::from_secs(1)),
        };
        if rate <= 0.0 {
            return Instant::NEVER;
        }
        let seconds = -(1.0 - self.rng.random::<f64>()).ln() / rate;
        self.world.now().after(Duration::from_secs_f64(seconds.min(1e9)))
    }
}

impl Arrival {
    /// Whether it was let in, or taken, or has to be told again whom to ask.
    fn has_moved(&self, world: &World) -> bool {
        match self.is_member {
            true => is_taken(world, self.id),
            false => world.is_member(self.n) || world.now() >= self.retry,
        }
    }
}

/// Whether the next member holds this one as its predecessor, or the other way round there is
/// nobody else.
fn is_taken(world: &World, id: Id) -> bool {
    let nodes = &world.links().nodes;
    let after = nodes.range(id..).skip(1).chain(nodes.range(..id));
    let mut members = after.filter(|(_, held)| held.state == NodeState::Member);
    members.next().is_none_or(|(_, held)| held.predecessor == Some(id))
}

/// How long maps may take to name everybody. A thousand arrivals take a minute within the budget.
const FILLING_LIMIT: Duration = Duration::from_secs(3600);
/// After so long one that has no place is told of another member (guess).
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// Above every delay of a message.
const SLACK: Duration = Duration::from_secs(2);
/// Draws before all are looked through: nearly everybody is a member.
const DRAWS: usize = 32;
