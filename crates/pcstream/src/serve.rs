//! `serve`: a device in front of an FDP disk, whose writes get the streams that `place` chooses.
//!
//! It is a process of its own, so that a file system never waits for one that captures.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use pcstream_place::notify::Notifier;
use pcstream_system::process;
use pcstream_trace::PAGE_BYTES;
use pcstream_ublk::{Event, Options, Server, Totals, UblkError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::args::ServeArgs;
use crate::failure::{Failure, Status};
use crate::ui::{self, Ui};

/// Threads that are enough for any drive.
const QUEUES_MAX: usize = 4;

/// `pcstream serve`.
pub fn serve(args: &ServeArgs, ui: Ui) -> Result<Status, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let queues = args.queues.unwrap_or(processors.min(QUEUES_MAX) as u16);
    let (stop, stopped) = UnixStream::pair().context("cannot catch signals")?;
    // What was started by `nohup` goes on when its terminal is gone.
    let hang_up = (!process::ignores(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        let end = stopped.try_clone().context("cannot catch signals")?;
        pipe::register(signal, end).context("cannot catch signals")?;
    }
    let options = Options { id: args.id, queues, depth: args.depth };
    let server = Server::start(&args.disk, &options, stop.as_fd(), &mut |event| ui.remark(&said(event)));
    let server = match server {
        Err(UblkError::Stopped) => {
            ui.remark("ended as you asked, before anything was served");
            return Ok(Status::Done);
        }
        server => server.map_err(refused)?,
    };
    fewer_queues(args.queues, server.queues()).iter().for_each(|fewer| ui.remark(fewer));
    let device = server.device();
    let limits = server.limits();
    let status = format!(
        "serving {} ({} write streams) as {}, until SIGTERM",
        args.disk.display(),
        limits.streams,
        device.display()
    );
    if let Some(lack) = server.lacks() {
        ui.remark(&format!("where memory is short, the server may have to wait for itself: {lack}"));
    }
    ui.remark(&status);
    ui::print(&format!("{}\n", device.display()))?;
    let notifier = Notifier::to(std::env::var_os("NOTIFY_SOCKET").as_deref());
    notifier.ready(&status);
    let totals = server.run(stop.as_fd(), &mut |event| ui.remark(&said(event))).map_err(Failure::failed)?;
    notifier.stopping();
    ui.remark(&summary(&totals));
    let lost = totals.errors() + totals.refused_bytes();
    Ok(Status::with_losses(lost > 0))
}

fn refused(error: UblkError) -> Failure {
    match error {
        UblkError::Unfit { .. } => Failure::wrong_arguments(error),
        error => Failure::failed(error),
    }
}

/// Said if there are fewer queues than were asked for.
fn fewer_queues(asked: Option<u16>, made: u16) -> Option<String> {
    let asked = asked.filter(|&asked| asked > made)?;
    Some(format!("--queues {asked}: the device has {made}, as many as there are processors"))
}

fn said(event: Event) -> String {
    match event {
        Event::Waits(id) => format!(
            "waiting for the number {id}: /dev/ublkb{id} of a killed server is still there, until nobody has it mounted or open; \
             unmount it"
        ),
        Event::Attached(process) => format!("process {process} gives writes their streams"),
        Event::Detached => "nobody gives streams any more: writes go on without".to_owned(),
        Event::InUse => {
            "the device is mounted, or open: it is served until it is not; unmount it, and end what has it open".to_owned()
        }
        Event::Unknown(why) => format!(
            "cannot tell whether the device is in use, so it is served on: {why}; give its node its name and owner (root) back"
        ),
    }
}

fn summary(totals: &Totals) -> String {
    let written = totals.written();
    let pages = (0..).zip(written).filter(|(_, bytes)| *bytes > 0);
    let pages: Vec<_> =
        pages.map(|(stream, bytes): (u8, u64)| format!("{stream}: {}", bytes / PAGE_BYTES)).collect();
    let [reads, flushes, discards] = totals.others();
    let mut text = format!(
        "served; pages written by write stream (0: none): {}; {reads} reads, {flushes} flushes, {discards} discards",
        if pages.is_empty() { "none".to_owned() } else { pages.join(", ") }
    );
    if totals.refused_bytes() > 0 {
        text += &format!(
            "; {} pages went without the stream that was refused",
            totals.refused_bytes() / PAGE_BYTES
        );
    }
    if totals.errors() > 0 {
        text += &format!("; {} requests failed, as the disk failed", totals.errors());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_queues_that_were_asked_for_are_missed() {
        assert_eq!(
            [fewer_queues(None, 2), fewer_queues(Some(2), 2), fewer_queues(Some(1), 1)],
            [None, None, None]
        );
        assert!(fewer_queues(Some(32), 2).is_some_and(|said| said.contains("--queues 32: the device has 2")));
    }
}
