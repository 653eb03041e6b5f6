//! [`Peers`]: who holds the connections of a service, so that one peer does not hold them all.
//!
//! ```text
//! a peer has its most           refused
//! all connections are taken     the oldest one on which no request arrived makes room; else refused
//! ```

use super::{MAX_CONNECTIONS, MAX_PEER_CONNECTIONS, MAX_REQUEST_TIME, MIN_BODY_TIME, PeerLimit};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};
use tokio::sync::Notify;

/// The bits of an IPv6 address that its network gives out as a whole: one peer has all the others.
const NETWORK: u128 = !0 << 64;

/// The connections that are served.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    limit: PeerLimit,
    open: Arc<Mutex<BTreeMap<u64, Open>>>,
}

#[derive(Debug)]
struct Open {
    peer: IpAddr,
    pace: Arc<Pace>,
    displaced: Arc<Notify>,
}

/// A place among the connections; it is free when this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) pace: Arc<Pace>,
    displaced: Arc<Notify>,
    number: u64,
    peers: Peers,
}

impl Peers {
    pub(super) fn new(limit: PeerLimit) -> Self {
        let open = Arc::default();
        Self { limit, open }
    }

    /// A place for a connection of this peer, if there is one.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Admitted> {
        let peer = peer_of(address);
        let mut open = self.held();
        let own = open.values().filter(|open| open.peer == peer).count();
        if self.limit == PeerLimit::Clients && own >= MAX_PEER_CONNECTIONS {
            return None;
        }
        if open.len() >= MAX_CONNECTIONS {
            let idle = open.iter().find(|(_, open)| !open.pace.has_arrived());
            let number = *idle?.0;
            open.remove(&number)?.displaced.notify_one();
        }
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        let (pace, displaced) = (Arc::<Pace>::default(), Arc::<Notify>::default());
        let admitted = Admitted {
            pace: Arc::clone(&pace),
            displaced: Arc::clone(&displaced),
            number,
            peers: self.clone(),
        };
        open.insert(
            number,
            Open {
                peer,
                pace,
                displaced,
            },
        );
        Some(admitted)
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// Returns when the connection must make room for another one.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.peers.held();
        // A later connection may have the number of one that made room.
        let is_own = open
            .get(&self.number)
            .is_some_and(|open| Arc::ptr_eq(&open.pace, &self.pace));
        if is_own {
            open.remove(&self.number);
        }
    }
}

/// How the requests of one connection come.
#[derive(Debug)]
pub(crate) struct Pace {
    arrived: AtomicBool,
    since: Mutex<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            arrived: AtomicBool::new(false),
            since: Mutex::new(SystemClock.elapsed()),
        }
    }
}

impl Pace {
    /// Did a whole request arrive on it?
    fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(crate) fn arrived(&self) {
        self.arrived.store(true, Ordering::Relaxed);
    }

    /// The time of the next request begins.
    pub(crate) fn answered(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = SystemClock.elapsed();
    }

    /// How long the rest of a request may take.
    pub(crate) fn left(&self) -> Duration {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = SystemClock.elapsed().saturating_sub(since);
        MAX_REQUEST_TIME.saturating_sub(taken).max(MIN_BODY_TIME)
    }
}

/// The address that counts: of IPv6 the network, of an IPv4 address that is written as one of IPv6 that one.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    // T-WIT-33
    #[test]
    fn a_peer_has_its_most_whatever_address_of_its_network_it_takes() {
        let peers = Peers::new(PeerLimit::Clients);
        for of in ["192.0.2.", "2001:db8::", "::ffff:198.51.100."] {
            let mut held = Vec::new();
            for number in 0..MAX_PEER_CONNECTIONS {
                let last = if of.ends_with(':') { number } else { 7 };
                held.push(peers.admit(address(&format!("{of}{last}"))).unwrap());
            }
            assert!(peers.admit(address(&format!("{of}7"))).is_none(), "{of}");
            held.pop();
            assert!(peers.admit(address(&format!("{of}7"))).is_some(), "{of}");
        }
        assert!(peers.held().is_empty());
        let proxy = Peers::new(PeerLimit::Proxy);
        let one = || proxy.admit(address("127.0.0.1"));
        let held: Vec<_> = (0..MAX_CONNECTIONS).map_while(|_| one()).collect();
        assert_eq!(held.len(), MAX_CONNECTIONS);
    }

    // T-WIT-33
    #[test]
    fn the_oldest_connection_without_a_request_makes_room() {
        let peers = Peers::new(PeerLimit::Clients);
        let admit = |number: usize| {
            let (high, low) = (number / 250, number % 250);
            peers.admit(address(&format!("10.0.{high}.{low}")))
        };
        let held: Vec<_> = (0..MAX_CONNECTIONS).map_while(admit).collect();
        assert_eq!(held.len(), MAX_CONNECTIONS);
        held[0].pace.arrived();
        let next = admit(200).unwrap();
        assert!(peers.held().contains_key(&0));
        assert!(!peers.held().contains_key(&1));
        held.iter().for_each(|held| held.pace.arrived());
        let last = admit(201).unwrap();
        let is_open = peers
            .held()
            .values()
            .any(|open| Arc::ptr_eq(&open.pace, &next.pace));
        assert!(!is_open);
        last.pace.arrived();
        assert!(admit(202).is_none());
        // One that made room gives no place back a second time.
        drop(next);
        assert_eq!(peers.held().len(), MAX_CONNECTIONS);
    }
}
