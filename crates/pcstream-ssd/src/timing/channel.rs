//! A channel: when it is busy from now on. Transfers are issued before the dies that they wait for are
//! idle, so a later one may well go first.

/// Intervals that may be over before the list is searched for them.
const SLACK: usize = 24;

/// Busy intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Begin and end, disjoint, in order, not touching. Those that are over go when the list has grown to
    /// `prune_at`.
    busy: Vec<(u64, u64)>,
    prune_at: usize,
}

impl Channel {
    /// Takes the first gap of `duration` from `ready` on; returns its start. Nothing will be asked for
    /// before `earliest()` any more.
    #[inline(always)]
    pub(super) fn reserve(&mut self, ready: u64, duration: u64, earliest: impl FnOnce() -> u64) -> u64 {
        match self.busy.last_mut() {
            Some((_, end)) if *end > ready => self.reserve_among(ready, duration, earliest),
            Some((_, end)) if *end == ready => {
                *end += duration;
                ready
            }
            _ => {
                if duration > 0 {
                    self.insert(self.busy.len(), (ready, ready + duration), earliest);
                }
                ready
            }
        }
    }

    /// The same, where something is reserved behind `ready`.
    fn reserve_among(&mut self, ready: u64, duration: u64, earliest: impl FnOnce() -> u64) -> u64 {
        if duration == 0 {
            return ready;
        }
        // Mostly near the end, since dies are about equally busy.
        let behind = self.busy.iter().rev().take_while(|&&(_, end)| end > ready).count();
        let mut at = self.busy.len() - behind;
        let mut start = ready;
        while let Some(&(next, end)) = self.busy.get(at) {
            if start + duration <= next {
                break;
            }
            start = end;
            at += 1;
        }
        let end = start + duration;
        let touches_before = at > 0 && self.busy[at - 1].1 == start;
        let touches_after = self.busy.get(at).is_some_and(|&(next, _)| next == end);
        match (touches_before, touches_after) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.remove(at);
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = start,
            (false, false) => self.insert(at, (start, end), earliest),
        }
        start
    }

    fn insert(&mut self, at: usize, interval: (u64, u64), earliest: impl FnOnce() -> u64) {
        self.busy.insert(at, interval);
        if self.busy.len() > self.prune_at {
            let now = earliest();
            let over = self.busy.partition_point(|&(_, end)| end < now);
            self.busy.drain(..over);
            self.prune_at = 2 * self.busy.len() + SLACK;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Channel;

    /// The first gap in which nothing is reserved, by looking at every reservation.
    fn first_gap(taken: &[(u64, u64)], ready: u64, duration: u64) -> u64 {
        let begins = taken.iter().map(|&(_, end)| end).chain([ready]).filter(|&begin| begin >= ready);
        let free = |begin: u64| taken.iter().all(|&(from, to)| to <= begin || begin + duration <= from);
        begins.filter(|&begin| free(begin)).min().expect("behind everything there is room")
    }

    proptest! {
        #[test]
        fn every_reservation_is_the_first_gap(requests in prop::collection::vec((0..60u64, 1..9u64, 0..4u64), 1..200)) {
            let (mut channel, mut taken, mut now) = (Channel::default(), Vec::new(), 0);
            for (wait, duration, step) in requests {
                now += step;
                let ready = now + wait;
                let expected = first_gap(&taken, ready, duration);
                prop_assert_eq!(channel.reserve(ready, duration, || now), expected);
                taken.push((expected, expected + duration));
            }
        }
    }

    #[test]
    fn nothing_takes_no_time() {
        let mut channel = Channel::default();
        assert_eq!(channel.reserve(5, 0, || 0), 5);
        assert_eq!(channel.reserve(0, 10, || 0), 0);
        assert_eq!(channel.reserve(5, 0, || 0), 5);
        assert_eq!(channel.reserve(5, 1, || 0), 10);
    }
}
