//! What the screen shows, and what keys change about it. Knows no terminal but the names of keys.

use std::sync::Arc;

use pcstream_watch::{ContextNow, RowsBy, Snapshot, SortBy, Who};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing but another picture.
    Nothing,
    /// To end.
    End,
    /// To stop until the shell goes on with it.
    Suspend,
}

/// What makes a letter a command.
const MODIFIERS: KeyModifiers = KeyModifiers::CONTROL.union(KeyModifiers::ALT);
/// Longest filter.
const FILTER_CHARACTERS: usize = 60;

/// The state of the screen.
#[derive(Debug, Default)]
pub struct View {
    /// What is watched.
    pub title: String,
    /// What came last; none before the first interval ended.
    pub latest: Option<Arc<Snapshot>>,
    /// The same with the rows that are shown.
    pub snapshot: Option<Arc<Snapshot>>,
    /// What came after it, while paused.
    pub newer: Option<Arc<Snapshot>>,
    /// Whether newer snapshots wait.
    pub paused: bool,
    /// What a row stands for.
    pub by: RowsBy,
    /// The program that was opened: its call paths alone are shown.
    pub program: Option<Who>,
    /// What rows are sorted by.
    pub sort: SortBy,
    /// Whether the other way round.
    pub reversed: bool,
    /// The row that is selected, and where it was last.
    pub selected: Option<(Who, usize)>,
    /// The row whose call path is shown instead of the table, as it was last known.
    pub detail: Option<ContextNow>,
    /// Lines that the call path is scrolled by.
    pub scroll: u16,
    /// Only rows that mention it are shown; empty: all.
    pub filter: String,
    /// Whether keys are the filter's letters.
    pub typing: bool,
    /// Whether keys are explained.
    pub help: bool,
    /// Whether colours are used.
    pub colors: bool,
    /// Rows that a page has, as drawn last.
    pub page: usize,
}

impl View {
    /// Takes a new snapshot.
    pub fn take(&mut self, snapshot: Arc<Snapshot>) {
        if self.paused {
            self.newer = Some(snapshot);
        } else {
            self.latest = Some(snapshot);
            self.choose_rows();
            self.refresh_detail();
        }
    }

    /// Indices of the snapshot's rows as they are shown.
    pub fn order(&self) -> Vec<usize> {
        let (Some(snapshot), Some(latest)) = (&self.snapshot, &self.latest) else { return Vec::new() };
        let mut order = snapshot.order(self.sort, self.reversed);
        order.retain(|at| latest.mentions(&snapshot.contexts[*at], &self.filter));
        order
    }

    /// Whether the table is shown, and not the detail of a row or the explanation of keys.
    pub fn shows_table(&self) -> bool {
        !self.help && self.detail.is_none()
    }

    /// Where the selected row is shown. A row that is gone leaves its place to another.
    pub fn selected(&self, order: &[usize]) -> Option<usize> {
        let snapshot = self.snapshot.as_ref()?;
        let (who, place) = self.selected?;
        let now = order.iter().position(|at| snapshot.contexts[*at].who == who);
        now.or_else(|| order.len().checked_sub(1).map(|last| place.min(last)))
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Asked {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let table = self.shows_table();
        match key.code {
            KeyCode::Char('c') if control => return Asked::End,
            KeyCode::Char('z') if control => return Asked::Suspend,
            KeyCode::Char(_) if self.typing && key.modifiers.intersects(MODIFIERS) => {}
            code if self.typing => self.letter(code),
            KeyCode::Char('q') => return Asked::End,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if self.help || self.detail.is_some() => {
                self.help = false;
                self.detail = None;
            }
            KeyCode::Esc => self.back(),
            KeyCode::Char('/') if table => self.typing = true,
            KeyCode::Enter | KeyCode::Right => self.open(),
            KeyCode::Char(' ' | 'p') => self.pause(),
            KeyCode::Char('s') if table => self.step_sort(),
            KeyCode::Char('r') if table => self.reversed = !self.reversed,
            KeyCode::Char('b') if table => self.step_rows(),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(self.page.max(1) as isize),
            KeyCode::PageUp => self.go(-(self.page.max(1) as isize)),
            KeyCode::Home => self.go(isize::MIN / 2),
            KeyCode::End => self.go(isize::MAX / 2),
            _ => {}
        }
        Asked::Nothing
    }

    /// A key while the filter is typed.
    fn letter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_CHARACTERS => {
                self.filter.push(letter)
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let Some(newer) = self.newer.take().filter(|_| !self.paused) {
            self.take(newer);
        }
    }

    fn step_sort(&mut self) {
        let at = SortBy::ALL.iter().position(|by| *by == self.sort).unwrap_or(0);
        self.sort = SortBy::ALL[(at + 1) % SortBy::ALL.len()];
        self.reversed = false;
    }

    fn step_rows(&mut self) {
        self.by = if self.by == RowsBy::Context { RowsBy::Program } else { RowsBy::Context };
        (self.program, self.selected) = (None, None);
        self.choose_rows();
    }

    /// The rows that are asked for, of what came last.
    fn choose_rows(&mut self) {
        self.snapshot = self.latest.as_ref().map(|latest| match (self.by, self.program) {
            (RowsBy::Context, _) => latest.clone(),
            (RowsBy::Program, None) => Arc::new(latest.by(RowsBy::Program).into_owned()),
            (RowsBy::Program, Some(program)) => Arc::new(latest.of_program(program)),
        });
    }

    /// Ends the filter, or else leaves the program that was opened.
    fn back(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
        } else if let Some(program) = self.program.take() {
            self.selected = Some((program, 0));
            self.choose_rows();
        }
    }

    fn go(&mut self, rows: isize) {
        if self.detail.is_some() {
            self.scroll = (self.scroll as isize).saturating_add(rows).clamp(0, 10_000) as u16;
            return;
        }
        let order = self.order();
        let Some(last) = order.len().checked_sub(1) else { return };
        let from = self.selected(&order).map_or(if rows > 0 { -1 } else { 1 }, |at| at as isize);
        let to = from.saturating_add(rows).clamp(0, last as isize) as usize;
        let who = self.snapshot.as_ref().map(|snapshot| snapshot.contexts[order[to]].who);
        self.selected = who.map(|who| (who, to));
    }

    /// Shows the call path of the selected row, or of the first; of a program all of them.
    fn open(&mut self) {
        let order = self.order();
        let at = self.selected(&order).unwrap_or(0);
        let row =
            self.snapshot.as_ref().zip(order.get(at)).map(|(snapshot, at)| snapshot.contexts[*at].clone());
        let Some(row) = row else { return };
        self.selected = Some((row.who, at));
        if let Who::Program(_) = row.who {
            (self.program, self.selected) = (Some(row.who), None);
            return self.choose_rows();
        }
        self.detail = Some(row);
        self.scroll = 0;
    }

    /// A row that wrote in no interval that is kept stays as it was.
    fn refresh_detail(&mut self) {
        let (Some(detail), Some(snapshot)) = (&mut self.detail, &self.snapshot) else { return };
        if let Some(row) = snapshot.contexts.iter().find(|row| row.who == detail.who) {
            *detail = row.clone();
        } else {
            detail.written.rate = 0.0;
            detail.written.history.iter_mut().for_each(|rate| *rate = 0.0);
        }
    }
}
