//! The terminal: taken over, drawn on, and given back whatever happens.
//!
//! A signal ends the capture, and with it this: the terminal is given back before anything is printed. A panic of any
//! thread gives it back first, by the hook that `ratatui` sets. A terminal that was closed ends it, too.

use std::ffi::OsStr;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use anyhow::Context as _;
use pcstream_watch::Snapshot;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use signal_hook::consts::SIGTSTP;

use super::output::Lines;
use super::screen;
use super::view::{Asked, View};
use crate::args::TopArgs;
use crate::failure::Failure;

/// Time until the next look at snapshots and at the end of the capture.
const LOOK: Duration = Duration::from_millis(100);

/// A terminal that was taken over. Given back when dropped. What ratatui has of it is not dropped itself: where the terminal is
/// gone, it would say so on stderr, and panic if that is the same terminal.
struct Taken(ManuallyDrop<DefaultTerminal>);

impl Taken {
    fn over() -> anyhow::Result<Taken> {
        let terminal = ratatui::try_init().context("cannot use the terminal; --once prints a table")?;
        Ok(Taken(ManuallyDrop::new(terminal)))
    }

    /// Stops this program, as Ctrl-Z does elsewhere, and goes on when the shell says so.
    fn suspend(&mut self) -> io::Result<()> {
        ratatui::try_restore()?;
        self.0.show_cursor()?;
        signal_hook::low_level::raise(SIGTSTP)?;
        enable_raw_mode()?;
        ratatui::crossterm::execute!(io::stdout(), EnterAlternateScreen)?;
        self.0.clear()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Whether a terminal of this kind (`TERM`) knows of a cursor and a second screen. One that is not named may know of nothing.
pub fn has_screen(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Shows snapshots until the user or the capture ends. If the user does, `end` ends the capture, whose last snapshot is a line,
/// too.
pub fn show(
    args: &TopArgs,
    mut lines: Option<Lines>,
    snapshots: &Receiver<Arc<Snapshot>>,
    end: impl FnOnce(),
) -> Result<(), Failure> {
    let colors = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
    let title = args.on.canonicalize().unwrap_or_else(|_| args.on.clone()).display().to_string();
    let mut view = View { title, sort: args.sort, by: args.by, colors, ..View::default() };
    let mut terminal = Taken::over()?;
    loop {
        loop {
            match snapshots.try_recv() {
                Ok(snapshot) => {
                    lines.as_mut().map_or(Ok(()), |lines| lines.write(&snapshot.by(args.by)))?;
                    view.take(snapshot);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        let shown = terminal.0.draw(|frame| screen::draw(frame, &mut view)).map(drop);
        let asked = match shown.and_then(|()| asked(&mut view)) {
            Err(_) if is_closed(Duration::ZERO).unwrap_or(true) => Asked::End,
            asked => asked.context("cannot use the terminal")?,
        };
        match asked {
            Asked::Nothing => {}
            Asked::End => break,
            Asked::Suspend => terminal.suspend().context("cannot use the terminal")?,
        }
    }
    drop(terminal);
    end();
    let Some(mut lines) = lines else { return Ok(()) };
    while let Ok(snapshot) = snapshots.recv() {
        lines.write(&snapshot.by(args.by))?;
    }
    Ok(())
}

/// Waits a moment for keys.
fn asked(view: &mut View) -> io::Result<Asked> {
    // Of a terminal that was closed, crossterm reads without end.
    if is_closed(LOOK)? {
        return Ok(Asked::End);
    }
    while event::poll(Duration::ZERO)? {
        let asked = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => view.key(key),
            _ => Asked::Nothing,
        };
        if asked != Asked::Nothing {
            return Ok(asked);
        }
    }
    Ok(Asked::Nothing)
}

/// Waits for input, at most so long; whether there will be none any more.
fn is_closed(longest: Duration) -> io::Result<bool> {
    let (input, longest) = (io::stdin(), longest.try_into().expect("less than a second"));
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    match rustix::event::poll(&mut polled, Some(&longest)) {
        Ok(_) => Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
