//! What a placer did that runs beside the watch.
//!
//! Units: pages of 4 KiB.

/// What a placer did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placing {
    /// Contexts whose lifetime is expected, those of a loaded table included.
    pub contexts_known: u64,
    /// How often all contexts were given streams together.
    pub clusterings: u64,
    /// Hints of files by outcome; none unless the placer gives hints.
    pub hints: Vec<(String, u64)>,
    /// File data by hint; none unless the placer gives hints.
    pub hinted: Vec<Hinted>,
    /// Requests by write stream; none unless the placer gives requests streams.
    pub streams: Vec<WriteStream>,
}

/// What went to a write stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteStream {
    /// As the device numbers it, from 1; 0: none was given.
    pub write_stream: u8,
    /// Requests.
    pub requests: u64,
    /// Their pages.
    pub pages: u64,
}

/// File data whose requests carried one hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hinted {
    /// In small letters; `none`: they carried none.
    pub hint: String,
    /// Pages.
    pub pages: u64,
    /// Of these, pages of contexts that have another hint.
    pub pages_of_others: u64,
}
