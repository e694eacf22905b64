//! Which stream a cluster gets: what matters to the device is that data stays with the data that it was placed with.

use crate::scheme::Stream;

/// Gives each cluster a stream of its own: that with which it shares most; the lowest free one, in the order of the clusters,
/// if it shares none that is left. `shared[cluster * streams + stream]` is what they have in common; 0 is nothing. Streams
/// below `first` are not given. There are at least as many streams from `first` on as clusters.
pub(crate) fn inherit(shared: &[u64], clusters: usize, first: usize, streams: usize) -> Vec<Stream> {
    let mut pairs: Vec<(u64, usize, usize)> = shared
        .iter()
        .enumerate()
        .filter(|&(at, &amount)| amount > 0 && at % streams >= first)
        .map(|(at, &amount)| (amount, at / streams, at % streams))
        .collect();
    pairs.sort_unstable_by_key(|&(amount, cluster, stream)| (std::cmp::Reverse(amount), cluster, stream));
    let (mut given, mut taken) = (vec![None; clusters], vec![false; streams]);
    for (_, cluster, stream) in pairs {
        if given[cluster].is_none() && !taken[stream] {
            taken[stream] = true;
            given[cluster] = Some(Stream(stream as u8));
        }
    }
    let mut free = (first..streams).filter(|&stream| !taken[stream]);
    given
        .into_iter()
        .map(|given| {
            given.unwrap_or_else(|| Stream(free.next().expect("no more clusters than streams") as u8))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_shared_goes_first_and_the_rest_is_in_order() {
        // Streams 0 to 3, from 1 on; three clusters.
        let shared = [9, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0];
        assert_eq!(inherit(&shared, 3, 1, 4), [Stream(2), Stream(1), Stream(3)]);
        assert_eq!(inherit(&shared, 3, 0, 4), [Stream(0), Stream(1), Stream(2)]);
        assert_eq!(inherit(&[], 0, 1, 1), []);
    }
}
