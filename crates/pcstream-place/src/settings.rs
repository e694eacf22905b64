//! What placing sets of a scheme, where simulations have other defaults. A user's settings come after it.

use pcstream_placement::Configured;
use pcstream_placement::pcstream::PcStreamParams;
use pcstream_placement::pcstream::mapper::Weights;

/// At most so many streams are few: S0, and one for each lifetime hint.
const FEW_STREAMS: u8 = 5;
/// The scheme with the paper's settings.
const OF_THE_PAPER: &str = "pcstream-paper";

/// Sets what placing needs of a scheme with so many streams, S0 included.
///
/// What is placed badly in the beginning stays on the drive, so the first clusterings come early. Of few streams, each
/// context that counts as much as any other may take one for a page or two of its own, and leave the heavy writers one
/// together: so contexts count by what they write.
pub fn set_for_placing(scheme: &mut Configured, streams: u8) {
    let is_of_the_paper = scheme.scheme() == OF_THE_PAPER;
    let Some(params) = scheme.params_mut::<PcStreamParams>() else { return };
    params.mapper.early = true;
    if streams <= FEW_STREAMS && !is_of_the_paper {
        params.mapper.weights = Weights::Written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learner::Learner;
    use crate::testing::{batch, write};
    use pcstream_placement::pcstream::averaging::Averaging;
    use pcstream_placement::pcstream::key::KeySource;
    use pcstream_placement::pcstream::lifetime::Died;
    use pcstream_placement::pcstream::table::{AttributeTable, EntryIndex};
    use pcstream_placement::{Environment, SchemeFactory as _, configure};
    use pcstream_trace::Signature;

    /// Contexts of a host: lifetime in pages, and samples. SQLite's log, its database and dd wrote nearly everything; the
    /// last two wrote a page each.
    const HOST: [(u64, u32); 12] = [
        (1012, 1399),
        (4596, 119_776),
        (18_261, 2496),
        (4661, 13_396),
        (15_719, 380),
        (18_470, 82),
        (24_665, 12),
        (57_158, 17),
        (254_537, 2),
        (277_133, 4598),
        (464_376, 1),
        (520_560, 1),
    ];

    fn table() -> Vec<u8> {
        let mut table = AttributeTable::new(360_000, Averaging::Half, 2.0);
        for (signature, (lifetime, samples)) in (1001..).zip(HOST) {
            for _ in 0..samples {
                let died = Died { lifetime, pages: 1 };
                table.learn(Signature(signature), died, &mut { EntryIndex::NOWHERE });
            }
        }
        table.save("pcstream", KeySource::Context)
    }

    /// Streams of the host's contexts when the table is loaded, and after the first three wrote again.
    fn streams(name: &str, streams: u8) -> [Vec<u8>; 2] {
        let mut scheme = configure(name).expect("it is registered");
        set_for_placing(&mut scheme, streams);
        let scheme = scheme.build(&Environment::new(streams).expect("streams")).expect("it can be made");
        let mut learner = Learner::new(scheme).expect("it places by context");
        learner.load_table(&table()).expect("just saved");
        let contexts = HOST.len() as u32;
        learner.feed(&batch(contexts, 1, Vec::new()));
        let of = |learner: &mut Learner| {
            learner.decide_all();
            learner.contexts().map(|learned| learned.decision.stream.0).collect::<Vec<_>>()
        };
        let loaded = of(&mut learner);
        for round in 0..200_000u64 {
            let context = [1, 2, 3][round as usize % 3];
            let (lifetime, _) = HOST[context as usize - 1];
            // Each overwrites its pages when its lifetime is over: a third of all writes is its own.
            let at = u64::from(context) * 1_000_000 + round / 3 % (lifetime / 3);
            learner.feed(&batch(0, 0, vec![write(context, 1, at, 1)]));
        }
        [loaded, of(&mut learner)]
    }

    #[test]
    fn contexts_of_a_page_leave_streams_to_those_that_write() {
        for streams in streams("pcstream", 5) {
            assert!(streams[0] != streams[2] && streams[1] != streams[2], "{streams:?}");
            assert_eq!(streams[10], streams[11], "they share one");
            assert_ne!(streams[2], streams[9], "dd and what lives fifteen times as long");
        }
    }

    #[test]
    fn many_streams_and_the_paper_are_left_alone() {
        let weights = |name: &str, streams| {
            let mut scheme = configure(name).expect("it is registered");
            set_for_placing(&mut scheme, streams);
            let mapper = scheme.params_mut::<PcStreamParams>().expect("pcstream's").mapper;
            (mapper.early, mapper.weights)
        };
        assert_eq!(weights("pcstream", 5), (true, Weights::Written));
        assert_eq!(weights("pcstream-tree", 2), (true, Weights::Written));
        assert_eq!(weights("pcstream", 6), (true, Weights::Equal));
        assert_eq!(weights("pcstream-paper", 5), (true, Weights::Equal));
    }
}
