//! What a device counts. All counters start at zero when counting starts (after the prefill).

/// Counters of one external stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamCounters {
    /// Pages that the host wrote to the stream.
    pub host_pages: u64,
    /// Pages that GC copied out of superblocks of the stream or of its internal stream. Copies out
    /// of shared superblocks, whose pages have no stream any more, are in
    /// `Counters::shared_gc_pages`.
    pub gc_pages: u64,
    /// Of `gc_pages`, those copied out of superblocks of the internal stream: copied more than once.
    pub internal_gc_pages: u64,
}

/// Counters of a device. Units are pages of 4 KiB unless the name says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// Pages that the host wrote. FDP: HBMW, in pages.
    pub host_pages: u64,
    /// Pages that GC copied.
    pub gc_pages: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Of these, by GC in the background.
    pub background_erases: u64,
    /// Pages discarded that held data.
    pub discarded_pages: u64,
    /// Pages discarded that held none: normal for preallocation and for repeated discards.
    pub discarded_unmapped_pages: u64,
    /// Pages that GC copied out of superblocks shared by all streams (`GcDestination::Shared`).
    pub shared_gc_pages: u64,
    /// Pages that named a stream which was not open, and so went to S0.
    pub unopened_stream_pages: u64,
    /// Victims taken by the greedy rule because the policy had, as often in a row as there are
    /// superblocks, picked victims without any invalid page. 0 for every sensible policy.
    pub rescues: u64,
    /// By external stream.
    pub streams: Vec<StreamCounters>,
    /// Victims by share of valid pages: bucket 0 counts victims without valid pages, bucket i the
    /// shares in ((i-1)/20, i/20]. A WAF of 1 with an empty histogram means that GC never ran; with
    /// bucket 0 only, that victims were always empty.
    pub victim_validity: [u64; Counters::VALIDITY_BUCKETS],
}

impl Counters {
    /// Buckets of `victim_validity`.
    pub const VALIDITY_BUCKETS: usize = 21;

    pub(crate) fn new(streams: usize) -> Self {
        Counters { streams: vec![StreamCounters::default(); streams], ..Counters::default() }
    }

    /// Pages programmed: host writes and GC copies. FDP: MBMW, in pages.
    pub fn flash_pages(&self) -> u64 {
        self.host_pages + self.gc_pages
    }

    /// Write amplification: flash page programs / host page writes. 1 before the first write.
    pub fn waf(&self) -> f64 {
        if self.host_pages == 0 { 1.0 } else { self.flash_pages() as f64 / self.host_pages as f64 }
    }

    /// Bucket of a victim with `valid` of `capacity` pages valid. Panics if those are more, or `capacity` is 0.
    pub fn validity_bucket(valid: u32, capacity: u32) -> usize {
        assert!(valid <= capacity && capacity > 0, "{valid} valid pages of {capacity}: expected at most all");
        let last = (Counters::VALIDITY_BUCKETS - 1) as u64;
        (u64::from(valid) * last).div_ceil(u64::from(capacity)) as usize
    }

    /// Adds what `other` counted.
    pub(crate) fn add(&mut self, other: &Counters) {
        self.host_pages += other.host_pages;
        self.gc_pages += other.gc_pages;
        self.erases += other.erases;
        self.background_erases += other.background_erases;
        self.discarded_pages += other.discarded_pages;
        self.discarded_unmapped_pages += other.discarded_unmapped_pages;
        self.shared_gc_pages += other.shared_gc_pages;
        self.unopened_stream_pages += other.unopened_stream_pages;
        self.rescues += other.rescues;
        for (mine, theirs) in self.streams.iter_mut().zip(&other.streams) {
            mine.host_pages += theirs.host_pages;
            mine.gc_pages += theirs.gc_pages;
            mine.internal_gc_pages += theirs.internal_gc_pages;
        }
        for (mine, theirs) in self.victim_validity.iter_mut().zip(&other.victim_validity) {
            *mine += theirs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn there_is_no_bucket_for_more_than_all_pages() {
        for (valid, capacity) in [(20, 10), (0, 0)] {
            assert!(std::panic::catch_unwind(|| Counters::validity_bucket(valid, capacity)).is_err());
        }
    }

    #[test]
    fn validity_buckets_are_closed_above() {
        assert_eq!(Counters::validity_bucket(0, 256), 0);
        assert_eq!(Counters::validity_bucket(1, 256), 1);
        assert_eq!(Counters::validity_bucket(256, 256), 20);
        assert_eq!(Counters::validity_bucket(5, 100), 1);
        assert_eq!(Counters::validity_bucket(6, 100), 2);
    }
}
