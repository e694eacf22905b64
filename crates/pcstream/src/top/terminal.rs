//! The terminal: taken over, drawn on, and given back whatever happens.
//!
//! A signal ends the capture, and with it this: the terminal is given back before anything is printed. A panic of any
//! thread gives it back first, by the hook that `ratatui` sets.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use anyhow::Context as _;
use pcstream_watch::Snapshot;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use signal_hook::consts::SIGTSTP;

use super::output::Lines;
use super::screen;
use super::view::{Asked, View};
use crate::args::TopArgs;
use crate::failure::Failure;

/// Time until the next look at snapshots and at the end of the capture.
const LOOK: Duration = Duration::from_millis(100);

/// A terminal that was taken over. Given back when dropped.
struct Taken(DefaultTerminal);

impl Taken {
    fn over() -> anyhow::Result<Taken> {
        Ok(Taken(ratatui::try_init().context("cannot use the terminal; --once prints a table")?))
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
        let _ = ratatui::try_restore();
    }
}

/// Whether a terminal of this kind (`TERM`) knows of a cursor and a second screen. One that is not named may know of nothing.
pub fn has_screen(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Shows snapshots until the user or the capture ends.
pub fn show(
    args: &TopArgs,
    mut lines: Option<Lines>,
    snapshots: &Receiver<Arc<Snapshot>>,
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
        match shown.and_then(|()| asked(&mut view)).context("cannot use the terminal")? {
            Asked::Nothing => {}
            Asked::End => return Ok(()),
            Asked::Suspend => terminal.suspend().context("cannot use the terminal")?,
        }
    }
}

/// Waits a moment for keys.
fn asked(view: &mut View) -> io::Result<Asked> {
    if !event::poll(LOOK)? {
        return Ok(Asked::Nothing);
    }
    match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Ok(view.key(key)),
        _ => Ok(Asked::Nothing),
    }
}
