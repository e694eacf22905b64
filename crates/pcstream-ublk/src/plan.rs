//! What a request to the device becomes on the disk: parts, each with one stream, and what comes next when one of them is done.
//!
//! Idea: a request of several streams is written in several parts. So many of them are on their way at once, and each that is done
//! calls for the next. Nothing here does I/O.
//!
//! Units: bytes. Streams as the disk numbers them; 0: none.
//!
//! Invariants: the parts of a request cover it once, in order. A request is answered once, when all its parts are. It succeeds only
//! if all of it did. A write whose stream is refused is made again without.

use crate::abi::{self, Descriptor};
use crate::table::{PAGE_BYTES, Use};

/// Parts of a request that are on their way at once.
pub const PARTS_AT_ONCE: usize = 8;
/// Times that a part is tried again. What the kernel lacks it may lack for a while, and a file system takes no error lightly.
const ATTEMPTS: u8 = 100;
/// Errors of a kernel that is short of memory or of requests: another try may succeed.
const SHORTAGES: [i32; 2] = [-libc::EAGAIN, -libc::ENOMEM];

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// Data.
    #[default]
    Read,
    /// To write data.
    Write,
    /// All that was written, on the medium.
    Flush,
    /// To forget.
    Discard,
    /// To read as zeros; `unmap`: a discard may do that.
    WriteZeroes {
        /// Whether.
        unmap: bool,
    },
}

/// A request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub operation: Operation,
    /// Where.
    pub start: u64,
    /// How much.
    pub bytes: u64,
    /// On the medium when it is answered.
    pub fua: bool,
}

impl Request {
    /// As the driver hands it over; the error is the answer.
    pub fn parse(descriptor: &Descriptor) -> Result<Request, i32> {
        let flags = descriptor.operation;
        let operation = match flags & 0xff {
            abi::READ => Operation::Read,
            abi::WRITE => Operation::Write,
            abi::FLUSH => Operation::Flush,
            abi::DISCARD => Operation::Discard,
            abi::WRITE_ZEROES => Operation::WriteZeroes { unmap: flags & abi::NO_UNMAP == 0 },
            _ => return Err(-libc::EOPNOTSUPP),
        };
        Ok(Request {
            operation,
            start: descriptor.start << 9,
            bytes: u64::from(descriptor.sectors) << 9,
            fua: flags & abi::IO_FUA != 0,
        })
    }

    /// Whether it moves data.
    fn moves_data(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Write)
    }
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From the request's beginning.
    pub offset: u64,
    /// How much of it is left to do.
    pub bytes: u64,
    /// With which stream.
    pub stream: u8,
    attempts: u8,
}

impl Part {
    fn new(offset: u64, bytes: u64, stream: u8) -> Part {
        Part { offset, bytes, stream, attempts: 0 }
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This part is to be done.
    Do(usize),
    /// This part is to be done again, after a while.
    Again(usize),
    /// Others are on their way.
    Wait,
    /// The request is answered: bytes, or a negative error number.
    Answer(i32),
}

/// A request on its way. It is kept for the next one: nothing is allocated while requests are served.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Which.
    pub request: Request,
    parts: Vec<Part>,
    /// Parts that were begun, from the first.
    begun: usize,
    /// Parts that are not done.
    left: usize,
    error: i32,
}

impl Progress {
    /// Room for requests of so many pages.
    pub fn with_room(pages: usize) -> Progress {
        Progress { parts: Vec::with_capacity(pages + 1), ..Progress::default() }
    }

    /// Begins with a request; says how many parts to do first. `take` says the stream of a page.
    pub fn begin(&mut self, request: Request, take: impl FnMut(u64) -> u8) -> usize {
        self.request = request;
        self.parts.clear();
        self.error = 0;
        if request.operation == Operation::Write {
            cut(&request, take, &mut self.parts);
        }
        if self.parts.is_empty() {
            self.parts.push(Part::new(0, request.bytes, 0));
        }
        self.left = self.parts.len();
        self.begun = self.left.min(PARTS_AT_ONCE);
        self.begun
    }

    /// A part that is to be done.
    pub fn part(&self, number: usize) -> Part {
        self.parts[number]
    }

    /// What a part came to. `count` gets what was done with streams.
    pub fn done(&mut self, number: usize, result: i32, mut count: impl FnMut(u8, Use)) -> Next {
        let moves_data = self.request.moves_data();
        let Some(part) = self.parts.get_mut(number) else { return Next::Wait };
        if result < 0 {
            let short = SHORTAGES.contains(&result);
            if part.attempts < ATTEMPTS && (short || result == -libc::EINTR) {
                part.attempts += 1;
                return if short { Next::Again(number) } else { Next::Do(number) };
            }
            if part.stream > 0 && result == -libc::EINVAL {
                count(part.stream, Use { refused_bytes: part.bytes, ..Use::default() });
                part.stream = 0;
                return Next::Do(number);
            }
            if result == -libc::EOPNOTSUPP
                && self.request.operation == (Operation::WriteZeroes { unmap: true })
            {
                self.request.operation = Operation::WriteZeroes { unmap: false };
                return Next::Do(number);
            }
            return self.finish(result);
        }
        if moves_data {
            let moved = u64::from(result.unsigned_abs()).min(part.bytes);
            if self.request.operation == Operation::Write && moved > 0 {
                count(part.stream, Use { writes: 1, bytes: moved, refused_bytes: 0 });
            }
            part.offset += moved;
            part.bytes -= moved;
            if moved == 0 && part.bytes > 0 {
                return self.finish(-libc::EIO);
            }
            if part.bytes > 0 {
                return Next::Do(number);
            }
        }
        self.finish(0)
    }

    /// A part is over.
    fn finish(&mut self, result: i32) -> Next {
        if self.error == 0 {
            self.error = result;
        }
        self.left -= 1;
        if self.begun < self.parts.len() {
            self.begun += 1;
            return Next::Do(self.begun - 1);
        }
        if self.left > 0 {
            return Next::Wait;
        }
        let bytes = if self.request.moves_data() { self.request.bytes as i32 } else { 0 };
        Next::Answer(if self.error == 0 { bytes } else { self.error })
    }
}

/// Cuts a write where the stream changes.
fn cut(request: &Request, mut take: impl FnMut(u64) -> u8, parts: &mut Vec<Part>) {
    let (mut at, end) = (request.start, request.start + request.bytes);
    while at < end {
        let page = at / PAGE_BYTES;
        let next = end.min((page + 1) * PAGE_BYTES);
        let stream = take(page);
        match parts.last_mut() {
            Some(last) if last.stream == stream => last.bytes += next - at,
            _ => parts.push(Part::new(at - request.start, next - at, stream)),
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn descriptor(operation: u32, start: u64, sectors: u32) -> Descriptor {
        Descriptor { operation, sectors, start, address: 0 }
    }

    fn write(start: u64, sectors: u32) -> Request {
        Request::parse(&descriptor(abi::WRITE, start, sectors)).expect("a write")
    }

    fn ignore(_: u8, _: Use) {}

    #[test]
    fn requests_are_what_the_driver_says() {
        let parsed = |operation| Request::parse(&descriptor(operation, 8, 16)).map(|r| (r.operation, r.fua));
        assert_eq!(parsed(abi::READ), Ok((Operation::Read, false)));
        assert_eq!(parsed(abi::WRITE | abi::IO_FUA), Ok((Operation::Write, true)));
        assert_eq!(parsed(abi::FLUSH), Ok((Operation::Flush, false)));
        assert_eq!(parsed(abi::DISCARD), Ok((Operation::Discard, false)));
        assert_eq!(parsed(abi::WRITE_ZEROES), Ok((Operation::WriteZeroes { unmap: true }, false)));
        let kept = parsed(abi::WRITE_ZEROES | abi::NO_UNMAP);
        assert_eq!(kept, Ok((Operation::WriteZeroes { unmap: false }, false)));
        assert_eq!(parsed(13), Err(-libc::EOPNOTSUPP));
        let request = write(8, 16);
        assert_eq!((request.start, request.bytes), (4096, 8192));
    }

    #[test]
    fn a_write_is_cut_where_its_stream_changes() {
        let mut progress = Progress::with_room(8);
        // From the middle of page 0 to that of page 5.
        let streams = [2, 2, 3, 0, 0, 2];
        let first = progress.begin(write(4, 40), |page| streams[page as usize]);
        assert_eq!(first, 4);
        let parts: Vec<_> =
            (0..4).map(|n| progress.part(n)).map(|part| (part.offset, part.bytes, part.stream)).collect();
        assert_eq!(parts, [(0, 6144, 2), (6144, 4096, 3), (10240, 8192, 0), (18432, 2048, 2)]);
    }

    #[test]
    fn a_request_is_answered_when_all_its_parts_are() {
        let mut progress = Progress::with_room(256);
        let begun = progress.begin(write(0, 80), |page| 1 + (page % 2) as u8);
        assert_eq!(begun, PARTS_AT_ONCE);
        assert_eq!(progress.done(3, 4096, ignore), Next::Do(8));
        assert_eq!(progress.done(0, 4096, ignore), Next::Do(9));
        for part in [1, 2, 4, 5, 6, 7, 8] {
            assert_eq!(progress.done(part, 4096, ignore), Next::Wait);
        }
        assert_eq!(progress.done(9, 4096, ignore), Next::Answer(40960));
    }

    #[test]
    fn a_stream_that_is_refused_is_left_out_and_counted() {
        let mut progress = Progress::with_room(4);
        let mut counted = Vec::new();
        progress.begin(write(0, 16), |_| 9);
        assert_eq!(progress.done(0, -libc::EINVAL, |stream, of| counted.push((stream, of))), Next::Do(0));
        assert_eq!(progress.part(0), Part::new(0, 8192, 0));
        // Not more than once: without a stream the error is the answer.
        assert_eq!(progress.clone().done(0, -libc::EINVAL, ignore), Next::Answer(-libc::EINVAL));
        // What was moved in part goes on where it stopped.
        assert_eq!(progress.done(0, 4096, |stream, of| counted.push((stream, of))), Next::Do(0));
        assert_eq!(progress.part(0), Part::new(4096, 4096, 0));
        assert_eq!(progress.done(0, 4096, |stream, of| counted.push((stream, of))), Next::Answer(8192));
        let wrote = Use { writes: 1, bytes: 4096, refused_bytes: 0 };
        assert_eq!(counted, [(9, Use { refused_bytes: 8192, ..Use::default() }), (0, wrote), (0, wrote)]);
    }

    #[test]
    fn an_error_of_any_part_is_the_answer() {
        let mut progress = Progress::with_room(4);
        assert_eq!(progress.begin(write(0, 16), |page| page as u8), 2);
        // With a stream, too: only EINVAL is a refusal.
        assert_eq!(progress.done(1, -libc::ENOSPC, ignore), Next::Wait);
        assert_eq!(progress.done(0, 4096, ignore), Next::Answer(-libc::ENOSPC));
    }

    #[test]
    fn what_the_kernel_lacks_for_now_is_waited_for_but_not_for_ever() {
        for shortage in SHORTAGES {
            let mut progress = Progress::with_room(4);
            progress.begin(write(0, 8), |_| 3);
            for _ in 0..ATTEMPTS {
                assert_eq!(progress.done(0, shortage, ignore), Next::Again(0));
                assert_eq!(progress.part(0).stream, 3);
            }
            assert_eq!(progress.clone().done(0, 4096, ignore), Next::Answer(4096));
            assert_eq!(progress.done(0, shortage, ignore), Next::Answer(shortage));
        }
        let mut progress = Progress::with_room(4);
        progress.begin(write(0, 8), |_| 3);
        assert_eq!(progress.done(0, -libc::EINTR, ignore), Next::Do(0), "nothing is lacking");
    }

    #[test]
    fn zeros_that_no_discard_can_make_are_written() {
        let zeros = Request::parse(&descriptor(abi::WRITE_ZEROES, 0, 8)).expect("zeros");
        let mut progress = Progress::with_room(1);
        assert_eq!(progress.begin(zeros, |_| unreachable!("no stream is taken")), 1);
        assert_eq!(progress.done(0, -libc::EOPNOTSUPP, ignore), Next::Do(0));
        assert_eq!(progress.request.operation, Operation::WriteZeroes { unmap: false });
        assert_eq!(progress.done(0, 0, ignore), Next::Answer(0));
    }

    proptest! {
        /// Whatever the disk does, every byte is asked for until it is done, and the answer is one and right.
        #[test]
        fn requests_are_done_whole(
            start in 0_u64..64,
            sectors in 1_u32..2048,
            results in prop::collection::vec((0_usize..8, prop::sample::select(vec![0, 1, -libc::EAGAIN, -libc::ENOMEM, -libc::EINVAL, -libc::EIO])), 0..50),
        ) {
            let request = write(start, sectors);
            let mut progress = Progress::with_room(256);
            let begun = progress.begin(request, |page| (page / 3 % 4) as u8);
            let mut under_way: Vec<usize> = (0..begun).collect();
            let (mut moved, mut failed, mut answer, mut results) = (0, false, None, results.into_iter());
            while !under_way.is_empty() {
                prop_assert!(under_way.len() <= PARTS_AT_ONCE);
                let (which, result) = results.next().unwrap_or((0, 1));
                let part = under_way.swap_remove(which % under_way.len());
                let now = progress.part(part);
                // 1: all of it; the first sector of several also happens.
                let result = if result == 1 { if which == 7 { 512 } else { now.bytes as i32 } } else { result };
                moved += result.max(0) as u64;
                failed |= result == 0 || result == -libc::EIO || (result == -libc::EINVAL && now.stream == 0);
                match progress.done(part, result, |_, _| ()) {
                    Next::Do(next) | Next::Again(next) => under_way.push(next),
                    Next::Wait => {}
                    Next::Answer(said) => prop_assert!(answer.replace(said).is_none()),
                }
            }
            let answer = answer.expect("answered");
            prop_assert_eq!(answer < 0, failed);
            if !failed {
                prop_assert_eq!((answer as u64, moved), (request.bytes, request.bytes));
            }
        }
    }
}
