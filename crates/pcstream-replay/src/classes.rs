//! Pages, lifetimes and hints of writes by classes that the caller chooses, such as programs and kinds of files.
//!
//! Idea: a pass of its own over a trace that has been replayed before, so that the caller knows which classes are heavy, and
//! memory depends on their number and on the device alone.
//!
//! Units: pages; lifetimes in pages of logical time, as in [`crate::liveness`].

use pcstream_ssd::{Density, OutOfMemory};
use pcstream_trace::{ContextId, Event, Life, Op, WriteHint};

use crate::lifetimes::{Lifetimes, Precision};
use crate::liveness::{Ended, Liveness};

/// The writes of one class.
#[derive(Clone, Debug)]
pub struct Class {
    /// Pages written.
    pub pages: u64,
    /// Lifetimes that ended, within 1 %.
    pub lifetimes: Lifetimes,
    /// Pages by the lifetime that the program asked for (index: the stored number of [`Life`]). What went to a write stream
    /// is left out: such a stream says more.
    pub pages_by_life: [u64; Life::ALL.len()],
    /// Pages that the program gave to a write stream.
    pub streamed_pages: u64,
    /// Sum of the times at which the pages were written that live.
    births: u128,
}

impl Class {
    fn new() -> Class {
        Class {
            pages: 0,
            lifetimes: Lifetimes::new(Precision::Percent),
            pages_by_life: Default::default(),
            streamed_pages: 0,
            births: 0,
        }
    }

    /// When the pages that live were written: the mean, in logical time. `None` if none lives.
    pub fn written_at(&self) -> Option<u64> {
        let alive = self.pages - self.lifetimes.ended_pages();
        (alive > 0).then(|| (self.births / u128::from(alive)) as u64)
    }

    /// Pages for which the program asked for something that a drive can act on.
    pub fn hinted_pages(&self) -> u64 {
        self.streamed_pages + self.pages_by_life[Life::Short as usize..].iter().sum::<u64>()
    }
}

/// Counts while events pass.
pub struct Classes {
    liveness: Liveness,
    written: u64,
    classes: Vec<Class>,
    ended: Vec<Ended>,
}

impl Classes {
    /// `count` classes on a device of `logical_pages`.
    pub fn new(count: usize, logical_pages: u64) -> Result<Classes, OutOfMemory> {
        let liveness = Liveness::new(logical_pages, Density::Sparse)?;
        Ok(Classes { liveness, written: 0, classes: vec![Class::new(); count], ended: Vec::new() })
    }

    /// Takes in the next event, of class `class` if it writes. Events are those that a replay has accepted. Panics on
    /// a class that is none of `count`, and on a page beyond the device.
    pub fn count(&mut self, event: &Event, class: usize) {
        let now = self.written;
        match event.op {
            Op::Write => {
                // Whose pages they are is all that liveness keeps of a context.
                let owner = ContextId(class as u32);
                self.liveness.write(event.lba.0, event.pages, owner, self.written, &mut self.ended);
                let (class, pages) = (&mut self.classes[class], u64::from(event.pages));
                class.pages += pages;
                class.births += sum(self.written, pages);
                match event.hint {
                    WriteHint { life, stream: 0 } => class.pages_by_life[life as usize] += pages,
                    WriteHint { .. } => class.streamed_pages += pages,
                }
                self.written += pages;
            }
            Op::Discard | Op::WriteZeroes => {
                self.liveness.discard(event.lba.0, event.pages, self.written, &mut self.ended);
            }
            Op::Read | Op::Flush | Op::Exit => {}
        }
        for run in self.ended.drain(..) {
            let (class, pages) = (&mut self.classes[run.context.0 as usize], u64::from(run.pages));
            class.lifetimes.record_run(&run);
            let ends = match event.op {
                Op::Write => sum(now + run.first - event.lba.0, pages),
                _ => u128::from(now) * u128::from(pages),
            };
            let last = run.lifetime_at(run.pages - 1);
            class.births -= ends - u128::from(run.lifetime + last) * u128::from(pages) / 2;
        }
    }

    /// By class.
    pub fn finish(self) -> Vec<Class> {
        self.classes
    }
}

/// Sum of `count` numbers in a row.
fn sum(first: u64, count: u64) -> u128 {
    u128::from(count) * (2 * u128::from(first) + u128::from(count.saturating_sub(1))) / 2
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn pages_lifetimes_and_hints_belong_to_the_class_that_wrote_them() {
        let event = |op, lba, pages, life, stream| Event {
            context: ContextId(1),
            op,
            hint: WriteHint { life, stream },
            ..Event::write(lba, pages)
        };
        let mut classes = Classes::new(3, 100).unwrap();
        classes.count(&event(Op::Write, 0, 10, Life::Short, 0), 1);
        classes.count(&event(Op::Write, 10, 5, Life::NotSet, 0), 2);
        classes.count(&event(Op::Write, 0, 5, Life::Short, 7), 2);
        classes.count(&event(Op::Discard, 5, 5, Life::NotSet, 0), 0);
        let [rest, one, two] = &classes.finish()[..] else { panic!("three classes") };
        assert_eq!((rest.pages, one.pages, two.pages), (0, 10, 10));
        assert_eq!((one.pages_by_life[Life::Short as usize], one.hinted_pages()), (10, 10));
        assert_eq!((two.pages_by_life, two.hinted_pages()), ([5, 0, 0, 0, 0, 0], 5));
        // Five pages were overwritten after 15 others, and five discarded after 15, 14, 13, 12 and 11.
        let quartiles = one.lifetimes.quartiles().unwrap();
        assert_eq!((quartiles.p25, quartiles.p50), (13, 15));
        assert_eq!((one.lifetimes.ended_pages(), two.lifetimes.ended_pages()), (10, 0));
        // Of class 2, five pages were written from 10 on and five from 15 on.
        assert_eq!([rest, one, two].map(Class::written_at), [None, None, Some(14)]);
    }
}
