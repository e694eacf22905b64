//! A channel: when it is busy from now on. Transfers are issued before the dies that they wait for are
//! idle, so a later one may well go first.

/// Intervals that may be over before the list is searched for them.
const SLACK: usize = 24;

/// Busy intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Begin and end, disjoint, in order, not touching. Those that are over stay until `forget_before`.
    busy: Vec<(u64, u64)>,
    /// Length at which looking for those is worth it.
    long: usize,
}

impl Channel {
    /// Takes the first gap of `duration` from `ready` on; returns its start.
    #[inline(always)]
    pub(super) fn reserve(&mut self, ready: u64, duration: u64) -> u64 {
        match self.busy.last_mut() {
            Some((_, end)) if *end > ready => return self.reserve_among(ready, duration),
            Some((_, end)) if *end == ready => *end += duration,
            _ if duration > 0 => self.busy.push((ready, ready + duration)),
            _ => {}
        }
        ready
    }

    /// Whether `forget_before` should be called.
    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.busy.len() > self.long
    }

    /// Nothing will be asked for before `now` any more.
    pub(super) fn forget_before(&mut self, now: u64) {
        let over = self.busy.partition_point(|&(_, end)| end < now);
        self.busy.drain(..over);
        self.long = 2 * self.busy.len() + SLACK;
    }

    /// `reserve` where something is reserved behind `ready`.
    fn reserve_among(&mut self, ready: u64, duration: u64) -> u64 {
        if duration == 0 {
            return ready;
        }
        let busy = &mut self.busy;
        let mut at = busy.partition_point(|&(_, end)| end <= ready);
        let mut start = ready;
        while at < busy.len() && busy[at].0 < start + duration {
            start = busy[at].1;
            at += 1;
        }
        let end = start + duration;
        let touches_after = at < busy.len() && busy[at].0 == end;
        if at > 0 && busy[at - 1].1 == start {
            busy[at - 1].1 = end;
            if touches_after {
                busy[at - 1].1 = busy[at].1;
                busy.remove(at);
            }
        } else if touches_after {
            busy[at].0 = start;
        } else {
            busy.insert(at, (start, end));
        }
        start
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
                prop_assert_eq!(channel.reserve(ready, duration), expected);
                if channel.is_long() {
                    channel.forget_before(now);
                }
                taken.push((expected, expected + duration));
            }
        }
    }

    #[test]
    fn nothing_takes_no_time() {
        let mut channel = Channel::default();
        assert_eq!(channel.reserve(5, 0), 5);
        assert_eq!(channel.reserve(0, 10), 0);
        assert_eq!(channel.reserve(5, 0), 5);
        assert_eq!(channel.reserve(5, 1), 10);
    }
}
