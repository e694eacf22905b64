//! What the flags say of a capture: of whom, where, and how.

use std::path::Path;

use anyhow::Context as _;
use pcstream_capture::capture::{CaptureOptions, Subject, Target};
use pcstream_capture::command::TracedOptions;
use pcstream_capture::session::SessionOptions;
use pcstream_capture::signature::Order;
use pcstream_fs::scratch::{FsKind, Image, Journal, ScratchOptions, hidden_writers};

use crate::args::{CaptureArgs, OrderArg, ScratchFs};
use crate::attached;
use crate::failure::Failure;
use crate::redact;
use crate::ui::Ui;
use crate::whole_file;
use crate::write_buffers;

/// Says which writes are recorded where these are more than those of the directory that was named.
pub fn say_what_is_taken(args: &CaptureArgs, subject: &Subject, ui: Ui) {
    for on in args.on.iter().filter(|_| !args.dir_only) {
        attached::takes_all(on, subject, "recorded").iter().for_each(|taken| ui.remark(taken));
    }
}

/// What the flags say of a capture.
pub fn options(args: &CaptureArgs, subject: Subject, ui: Ui) -> Result<CaptureOptions, Failure> {
    let session = session(args, &subject, ui)?;
    args.on().and_then(hidden_writers).iter().for_each(|hidden| ui.remark(hidden));
    let order = order(args.order);
    let traced = TracedOptions { reap: true, ..TracedOptions::default() };
    let options = CaptureOptions::new(subject, target(args)?);
    Ok(CaptureOptions {
        session,
        order,
        traced,
        duration: args.duration,
        module_name: if args.redact { redact::module } else { options.module_name },
        ..options
    })
}

fn target(args: &CaptureArgs) -> anyhow::Result<Target> {
    let there = |flag: &str, given: &Path, at: &Path| {
        std::fs::metadata(at).map(drop).with_context(|| format!("{flag} {}", given.display()))
    };
    if let Some(dir) = args.on() {
        there("--on", dir, dir)?;
    }
    if let Image::File(path) = &args.image {
        there("--image", path, whole_file::parent(path))?;
    }
    Ok(match args.on() {
        Some(dir) => Target::Existing(dir.to_owned()),
        None => Target::Scratch(ScratchOptions {
            fs: fs_kind(args.fs),
            journal: fs_journal(args.fs),
            size_bytes: args.size,
            fill: args.fill,
            image: args.image.clone(),
            ..ScratchOptions::default()
        }),
    })
}

/// A file system by its flag.
pub fn fs_kind(fs: ScratchFs) -> FsKind {
    match fs {
        ScratchFs::Ext4 | ScratchFs::Ext4NoJournal | ScratchFs::Ext4DataJournal => FsKind::Ext4,
        ScratchFs::Xfs => FsKind::Xfs,
        ScratchFs::F2fs => FsKind::F2fs,
    }
}

/// What its journal holds.
pub fn fs_journal(fs: ScratchFs) -> Journal {
    match fs {
        ScratchFs::Ext4 | ScratchFs::Xfs | ScratchFs::F2fs => Journal::Metadata,
        ScratchFs::Ext4NoJournal => Journal::Off,
        ScratchFs::Ext4DataJournal => Journal::Data,
    }
}

fn session(args: &CaptureArgs, subject: &Subject, ui: Ui) -> Result<SessionOptions, Failure> {
    Ok(SessionOptions {
        buffers: write_buffers::probes(&args.write_buffers, subject, ui)?,
        unwind: args.unwind.0,
        depth: args.depth.map(u32::from),
        only_below: attached::only_below(args.on(), args.dir_only)?,
        ..SessionOptions::default()
    })
}

fn order(order: OrderArg) -> Order {
    match order {
        OrderArg::Hash => Order::Hash,
        OrderArg::Sum => Order::Sum,
    }
}
