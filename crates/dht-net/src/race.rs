//! Several addresses of one peer, tried one after the other and yet at the same time
//! ("happy eyeballs", RFC 8305).

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// What a race came to.
#[derive(Debug)]
pub(crate) struct Finish<T, E> {
    /// What the first success brought, if there was one.
    pub(crate) winner: Option<(SocketAddr, T)>,
    /// The addresses that failed before.
    pub(crate) failed: Vec<(SocketAddr, E)>,
    /// The addresses that had been tried for longer than the winner and were still silent.
    pub(crate) overtaken: Vec<SocketAddr>,
}

/// Tries the addresses in their order, each `stagger` after the one before or as soon as that one
/// has failed, until one succeeds or fails in a way that `settles` the matter for all.
pub(crate) async fn race<T, E, F>(
    addrs: &[SocketAddr],
    stagger: Duration,
    attempt: impl Fn(SocketAddr) -> F,
    settles: impl Fn(&E) -> bool,
) -> Finish<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut finish = Finish { winner: None, failed: Vec::new(), overtaken: Vec::new() };
    let mut waiting = addrs.iter().copied();
    let mut running = FuturesUnordered::new();
    let start = |addr: SocketAddr| {
        let result = attempt(addr);
        async move { (addr, result.await) }
    };
    running.extend(waiting.next().map(start));
    let mut next_start = pin!(tokio::time::sleep(stagger));
    while !running.is_empty() {
        tokio::select! {
            Some((addr, result)) = running.next() => match result {
                Ok(won) => {
                    let over = |other: &SocketAddr| finish.failed.iter().any(|(at, _)| at == other);
                    let before = addrs.iter().take_while(|other| **other != addr);
                    finish.overtaken = before.filter(|other| !over(other)).copied().collect();
                    finish.winner = Some((addr, won));
                    return finish;
                }
                Err(error) => {
                    let settled = settles(&error);
                    finish.failed.push((addr, error));
                    if settled {
                        return finish;
                    }
                }
            },
            () = &mut next_start, if waiting.len() > 0 => {}
        }
        // Either the time is up, or an attempt has failed: both start the next one.
        running.extend(waiting.next().map(start));
        next_start.as_mut().reset(tokio::time::Instant::now() + stagger);
    }
    finish
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::time::Instant;

    use super::*;

    fn addr(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    /// How an address behaves: it answers after so many milliseconds with success or failure, or
    /// never.
    #[derive(Clone, Copy)]
    enum Host {
        Answers(u64),
        Fails(u64),
        Dead,
    }

    async fn run(hosts: &[(u16, Host)]) -> (Finish<u16, u16>, Duration) {
        let behaviour: BTreeMap<SocketAddr, Host> =
            hosts.iter().map(|(port, host)| (addr(*port), *host)).collect();
        let addrs: Vec<SocketAddr> = hosts.iter().map(|(port, _)| addr(*port)).collect();
        let began = Instant::now();
        let attempt = |at: SocketAddr| {
            let host = behaviour[&at];
            async move {
                let after = |ms| tokio::time::sleep(Duration::from_millis(ms));
                match host {
                    Host::Answers(ms) => after(ms).await,
                    Host::Fails(ms) => {
                        after(ms).await;
                        return Err(at.port());
                    }
                    Host::Dead => {
                        tokio::time::sleep(Duration::from_secs(5)).await;
                        return Err(at.port());
                    }
                }
                Ok(at.port())
            }
        };
        let finish = race(&addrs, Duration::from_millis(200), attempt, |port| *port == 99).await;
        (finish, began.elapsed())
    }

    /// Case 6: dead addresses before the live one cost less than a second, in any order.
    #[tokio::test(start_paused = true)]
    async fn dead_addresses_cost_less_than_a_second() {
        use Host::*;
        for hosts in [
            vec![(1, Dead), (2, Answers(30))],
            vec![(2, Answers(30)), (1, Dead)],
            vec![(1, Dead), (3, Dead), (4, Dead), (2, Answers(30))],
        ] {
            let (finish, took) = run(&hosts).await;
            let dead_before: Vec<SocketAddr> =
                hosts.iter().map(|(port, _)| addr(*port)).take_while(|at| at.port() != 2).collect();
            assert_eq!(finish.winner, Some((addr(2), 2)));
            assert_eq!(finish.overtaken, dead_before);
            assert!(finish.failed.is_empty());
            assert!(took < Duration::from_secs(1), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_starts_the_next_attempt_at_once() {
        use Host::*;
        let (finish, took) = run(&[(1, Fails(1)), (3, Fails(1)), (2, Answers(1))]).await;
        assert_eq!(finish.winner, Some((addr(2), 2)));
        assert_eq!(finish.failed, [(addr(1), 1), (addr(3), 3)]);
        assert!(finish.overtaken.is_empty());
        assert_eq!(took, Duration::from_millis(3));
    }

    #[tokio::test(start_paused = true)]
    async fn all_dead_is_told_when_the_last_attempt_ends() {
        use Host::*;
        let (finish, took) = run(&[(1, Dead), (3, Dead)]).await;
        assert_eq!(finish.winner, None);
        assert_eq!(finish.failed, [(addr(1), 1), (addr(3), 3)]);
        assert_eq!(took, Duration::from_millis(5200));
        assert!(run(&[]).await.0.failed.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn some_failures_settle_it_for_all() {
        use Host::*;
        let (finish, took) = run(&[(1, Dead), (99, Fails(10)), (2, Answers(1))]).await;
        assert_eq!(finish.winner, None);
        assert_eq!(finish.failed, [(addr(99), 99)]);
        assert_eq!(took, Duration::from_millis(210));
    }
}
