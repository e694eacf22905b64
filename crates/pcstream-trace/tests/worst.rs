//! Whatever names a traced program has, the trace that the writer finishes is one that the reader opens.
#![cfg(feature = "store")]

use pcstream_trace::*;

/// A context of these frames, each in another module.
fn context(id: u32, modules: impl Iterator<Item = String>) -> Context {
    let frame = |module| Frame { module, build_id: "c0ffee".repeat(7), offset: 1, symbol: String::new() };
    Context {
        id: ContextId(id),
        signature: Signature(u64::from(id)),
        unwind: Unwind::Runtime,
        frames: modules.map(frame).collect(),
        ..Context::default()
    }
}

/// Writes them, one batch each, and finishes with the symbols that `name` gives them.
fn write(
    contexts: impl Iterator<Item = Context>,
    name: Option<fn(u32) -> String>,
) -> Result<Summary, TraceError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    let mut named = Vec::new();
    for context in contexts {
        named.extend(name.map(|_| context.clone()));
        writer.write_batch(&Batch { contexts: vec![context], ..Batch::default() }).unwrap();
    }
    for (context, name) in named.iter_mut().zip(std::iter::repeat(name).flatten()) {
        let symbol = name(context.id.0);
        context.frames.iter_mut().for_each(|frame| frame.symbol.clone_from(&symbol));
    }
    let summary = writer.finish(name.map(|_| &named[..]))?;
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.contexts().len() as u64, summary.meta.totals.contexts);
    assert!(named.is_empty() || reader.contexts() == named);
    Ok(summary)
}

/// Each of the strings counts as much as the longest one.
#[test]
fn many_frames_with_one_long_name_can_be_read() {
    let frames = |id: u32| {
        (0..33).map(move |i| if (id, i) == (7, 7) { "n".repeat(4000) } else { format!("java:C{id}.m{i}") })
    };
    write((1..=4200).map(|id| context(id, frames(id))), None).unwrap();
    // As long, but only once the functions have names.
    let name = |id| if id == 7 { "s".repeat(4000) } else { format!("f{id}") };
    write((1..=4200).map(|id| context(id, (0..33).map(|i| format!("{i}")))), Some(name)).unwrap();
}

#[test]
fn long_strings_are_not_too_much_for_a_page() {
    let long = |id: u32, frame: usize| format!("{id:08}{frame:08}").repeat(4096);
    write((1..=4).map(|id| context(id, (0..180).map(move |frame| long(id, frame)))), None).unwrap();
    // Nor is one row.
    let huge = context(1, (0..400).map(|frame| long(1, frame)));
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(dir.path().join("t"), Meta::new("d", 1000), false).unwrap();
    let refused = writer.write_batch(&Batch { contexts: vec![huge], ..Batch::default() }).unwrap_err();
    assert!(refused.to_string().contains("names of"), "{refused}");
}

/// A small file may be as large as the reader's memory for it, and no larger.
#[test]
fn a_table_that_no_reader_takes_is_refused() {
    let path = "p".repeat(60_000);
    let of = |rows: u32| {
        let path = path.clone();
        (1..=rows).map(move |id| context(id, std::iter::repeat_n(path.clone(), 100)))
    };
    // 100 frames of 60,000 bytes and their structures take 6 MB.
    write(of(88), None).unwrap();
    let refused = write(of(92), None).unwrap_err();
    assert!(refused.to_string().contains("the table takes 527 MiB of memory"), "{refused}");
}
