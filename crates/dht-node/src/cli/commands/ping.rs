//! `ping`: round trips.

use std::time::Instant;

use super::with_client;
use crate::cli::args::{Globals, PingArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::PingJson;
use crate::cli::output::Output;
use crate::cli::units::show_micros;

pub(super) fn run(globals: &Globals, args: &PingArgs, output: Output) -> Result<Exit, Failure> {
    with_client(globals, async |client| {
        let member = client.member();
        let mut rtt_us = Vec::new();
        for _ in 0..args.count {
            let asked = Instant::now();
            member.identify().await?;
            rtt_us.push(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        let (min_us, mean_us, max_us) = figures(&rtt_us);
        let addr = member.remote().to_string();
        let json = PingJson { id: member.id(), addr, rtt_us, min_us, mean_us, max_us };
        output.result(&json, || for_people(&json))?;
        Ok(Exit::Done)
    })
}

fn figures(rtt_us: &[u64]) -> (u64, u64, u64) {
    let count = rtt_us.len().max(1) as u64;
    let sum: u64 = rtt_us.iter().fold(0, |sum, rtt| sum.saturating_add(*rtt));
    let (min, max) = (rtt_us.iter().min(), rtt_us.iter().max());
    (min.copied().unwrap_or(0), sum / count, max.copied().unwrap_or(0))
}

fn for_people(json: &PingJson) -> String {
    let mut text = format!("node {} at {}\n", json.id, json.addr);
    for (at, rtt) in json.rtt_us.iter().enumerate() {
        text.push_str(&format!("{:>4}: {}\n", at + 1, show_micros(*rtt)));
    }
    let figures = [json.min_us, json.mean_us, json.max_us].map(show_micros);
    text.push_str(&format!("min {}, mean {}, max {}\n", figures[0], figures[1], figures[2]));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_round_trips() {
        assert_eq!(figures(&[5, 1, 6]), (1, 4, 6));
        assert_eq!(figures(&[]), (0, 0, 0));
    }
}
