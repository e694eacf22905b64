//! Metrics of a placer that runs beside the watch: what it knows, and what became of its decisions.
//!
//! Units: bytes. Labels: numbers of write streams and names of outcomes, both few.

use pcstream_trace::PAGE_BYTES;

use super::{Metric, head, label, sample};
use crate::placing::{Hinted, Placing, WriteStream};

const KNOWN: Metric = (
    "pcstream_place_contexts_known",
    "gauge",
    "",
    "Program contexts of which some data has died, now or before the table was saved: a lifetime is expected.",
);
const CLUSTERINGS: Metric =
    ("pcstream_place_clusterings", "counter", "", "How often all contexts were given streams together.");
const HINTS: Metric =
    ("pcstream_place_hints", "counter", "", "Write hints of files, by what came of saying them.");
const HINTED: Metric = (
    "pcstream_place_hinted_bytes",
    "counter",
    "bytes",
    "File data by the write hint that its requests carried.",
);
const HINTED_OTHERS: Metric = (
    "pcstream_place_hinted_others_bytes",
    "counter",
    "bytes",
    "File data by the write hint that its requests carried, of contexts with another hint.",
);
const REQUESTS: Metric =
    ("pcstream_place_requests", "counter", "", "Requests that the BPF program gave a write stream; 0: none.");
const PLACED: Metric = (
    "pcstream_place_placed_bytes",
    "counter",
    "bytes",
    "Bytes of the requests that the BPF program gave a write stream; 0: none.",
);

/// All of them, in the order of the text.
pub(super) const METRICS: [Metric; 7] = [KNOWN, CLUSTERINGS, HINTS, HINTED, HINTED_OTHERS, REQUESTS, PLACED];

pub(super) fn render(out: &mut String, placing: &Placing) {
    head(out, KNOWN);
    sample(out, KNOWN, "", placing.contexts_known);
    head(out, CLUSTERINGS);
    sample(out, CLUSTERINGS, "", placing.clusterings);
    head(out, HINTS);
    for (outcome, count) in &placing.hints {
        sample(out, HINTS, &label("outcome", outcome), count);
    }
    let of = |hinted: &Hinted| label("hint", &hinted.hint);
    head(out, HINTED);
    placing.hinted.iter().for_each(|hinted| sample(out, HINTED, &of(hinted), hinted.pages * PAGE_BYTES));
    head(out, HINTED_OTHERS);
    for hinted in &placing.hinted {
        sample(out, HINTED_OTHERS, &of(hinted), hinted.pages_of_others * PAGE_BYTES);
    }
    let labels = |stream: &WriteStream| format!("write_stream=\"{}\"", stream.write_stream);
    head(out, REQUESTS);
    placing.streams.iter().for_each(|stream| sample(out, REQUESTS, &labels(stream), stream.requests));
    head(out, PLACED);
    placing.streams.iter().for_each(|stream| sample(out, PLACED, &labels(stream), stream.pages * PAGE_BYTES));
}
