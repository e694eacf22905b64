//! The screen, drawn on a terminal that is only memory, and the keys that change it.

use std::sync::Arc;
use std::time::Duration;

use pcstream_placement::Stream;
use pcstream_replay::Quartiles;
use pcstream_trace::{Context, ContextId, Frame, Kind, Signature};
use pcstream_watch::snapshot::{Expected, Flow};
use pcstream_watch::{ContextNow, Snapshot, StreamNow, Who};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;

use super::output::Lines;
use super::screen::draw;
use super::terminal::has_screen;
use super::view::{Asked, View};
use super::*;

fn flow(pages: u64) -> Flow {
    let rate = pages as f64 * 4096.0;
    Flow { pages, total_pages: 10 * pages, rate, history: vec![0.0, rate / 2.0, rate] }
}

fn row(id: u32, pages: u64) -> ContextNow {
    let symbol = |name: &str| Frame {
        module: "/usr/bin/db".into(),
        offset: 0x10,
        symbol: name.into(),
        ..Frame::default()
    };
    ContextNow {
        who: Who::Context(ContextId(id)),
        context: Some(Arc::new(Context {
            id: ContextId(id),
            signature: Signature(id.into()),
            executable: format!("/usr/bin/db{id}"),
            comm: "worker\x1b[2J".into(),
            entry: "pwrite64".into(),
            frames: vec![symbol(&format!("Log{id}::append(int)")), symbol("main")],
            ..Context::default()
        })),
        path: format!("Log{id}::append < main"),
        written: flow(pages),
        share: pages as f64 / 1000.0,
        pages_by_kind: [pages, 0, 0, 0, 0, 0],
        lifetimes: Some(Quartiles { p25: 10, p50: u64::from(100 * id), p75: 1000 }),
        ended: 7,
        expected: Some(Expected { lifetime: 100, samples: 9 }),
        stream: Some(Stream(id as u8)),
        files: vec![format!("/data/file{id}").into()],
        first: Duration::from_secs(30),
        last: Duration::from_millis(200),
    }
}

fn snapshot(rows: Vec<ContextNow>) -> Arc<Snapshot> {
    Arc::new(Snapshot {
        elapsed: Duration::from_secs(75),
        interval: Duration::from_secs(2),
        window: Duration::from_secs(10),
        written: flow(1000),
        contexts: rows,
        streams: vec![StreamNow { stream: Stream(1), written: flow(600), contexts: 1 }],
        context_count: 3,
        ..Snapshot::default()
    })
}

fn view() -> View {
    let mut view = View { title: "/srv/db".into(), ..View::default() };
    view.take(snapshot(vec![row(1, 600), row(2, 300), row(3, 100)]));
    view
}

/// The picture, line by line.
fn picture(view: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal.draw(|frame| draw(frame, view)).expect("memory");
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn press(view: &mut View, keys: &[KeyCode]) {
    for key in keys {
        assert_eq!(view.key(KeyEvent::new(*key, KeyModifiers::NONE)), Asked::Nothing, "{key:?}");
    }
}

/// Names of programs in the table, from above.
fn programs(view: &mut View) -> Vec<String> {
    let words =
        |line: &String| line.split_whitespace().find(|word| word.starts_with("db")).map(str::to_owned);
    picture(view, 80, 24).iter().skip(4).filter_map(words).collect()
}

#[test]
fn at_80_columns_who_writes_what_is_seen() {
    let lines = picture(&mut view(), 80, 14);
    assert_eq!(lines[0], "/srv/db 3.91 MiB/s written, 0 B/s discarded, 3 contexts, 1 min 15 s");
    assert_eq!(lines[1], "S1 2.34 MiB/s");
    assert!(lines[3].starts_with(" \u{2588}\u{2588}"), "history: {:?}", lines[3]);
    assert_eq!(lines[4], "      rate  share life p50 stream program          most to call path");
    assert_eq!(lines[5], "2.34 MiB/s 60.0 %  400 KiB     S1 db1 (worker\\x1b[ file1   pwrite64 < Log1::appe");
    assert_eq!(lines[13], "q end  ? help  Enter call path  / filter  Space pause  s sort: rate  r reverse");
}

#[test]
fn narrow_and_low_terminals_show_the_rate_and_the_program() {
    for width in 1..=120 {
        for height in 1..=14 {
            picture(&mut view(), width, height);
        }
    }
    let lines = picture(&mut view(), 36, 6);
    assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["rate", "program"]);
    assert!(lines[3].contains("2.34 MiB/s db1"), "{lines:?}");
    assert!(picture(&mut view(), 120, 14)[4].contains("total"), "a wide one shows more");
}

#[test]
fn rows_are_sorted_by_the_column_that_keys_choose() {
    let mut view = view();
    assert_eq!(programs(&mut view), ["db1", "db2", "db3"]);
    press(&mut view, &[KeyCode::Char('r')]);
    assert_eq!(programs(&mut view), ["db3", "db2", "db1"]);
    press(&mut view, &[KeyCode::Char('s'), KeyCode::Char('s')]);
    assert_eq!(programs(&mut view), ["db1", "db2", "db3"], "by lifetime, the shortest first");
    assert!(picture(&mut view, 80, 14)[13].contains("sort: lifetime"));
}

/// Whoever sees a part of a word takes it for all of it.
#[test]
fn what_has_no_room_is_left_out_as_a_whole() {
    let mut view = view();
    let losses = [("missed_events".to_owned(), 5), ("missed_frames_of_stacks".to_owned(), 5)].into();
    view.take(Arc::new(Snapshot { losses, ..(*snapshot(vec![row(1, 600)])).clone() }));
    let lines = picture(&mut view, 40, 14);
    assert_eq!(lines[0], "/srv/db 3.91 MiB/s written, ..");
    assert_eq!(lines[1], "lost: missed_events 5, ..");
    assert_eq!(lines[13], "q end  ? help  Enter call path  ..");
    view.title = "/srv/a/directory/with/a/long/name".into();
    assert_eq!(picture(&mut view, 40, 14)[0], "/srv/a/directory~ 3.91 MiB/s written, ..");
    press(&mut view, &[KeyCode::Enter]);
    assert_eq!(picture(&mut view, 40, 14)[13], "q end  Esc back  Up Down scroll  ..");
}

#[test]
fn a_filter_shows_the_rows_that_mention_it() {
    let mut view = view();
    let text = |text: &str| text.chars().map(KeyCode::Char).collect::<Vec<_>>();
    press(&mut view, &text("/log2"));
    assert_eq!(programs(&mut view), ["db2"], "of a function, while it is typed");
    assert_eq!(picture(&mut view, 80, 14)[13], "/log2_  Enter keep  Esc show all");
    press(&mut view, &[KeyCode::Backspace, KeyCode::Backspace]);
    press(&mut view, &text("q"));
    assert!(picture(&mut view, 80, 14)[4].contains("No row has this text"), "q is a letter there");
    press(&mut view, &[KeyCode::Esc]);
    assert_eq!(programs(&mut view), ["db1", "db2", "db3"]);
    press(&mut view, &text("/FILE3"));
    press(&mut view, &[KeyCode::Enter]);
    assert_eq!(programs(&mut view), ["db3"]);
    assert!(picture(&mut view, 80, 14)[13].starts_with("Esc ends filter: FILE3  q end"));
    press(&mut view, &[KeyCode::Enter, KeyCode::Esc]);
    assert_eq!(programs(&mut view), ["db3"], "back from its detail the filter is still there");
    press(&mut view, &[KeyCode::Esc]);
    assert_eq!(programs(&mut view), ["db1", "db2", "db3"]);
    press(&mut view, &text("/bin/db1"));
    assert_eq!(programs(&mut view), ["db1"], "of a program");
    view.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    assert_eq!(programs(&mut view), ["db1"], "a command is no letter");
    press(&mut view, &[KeyCode::Esc, KeyCode::Char('b')]);
    press(&mut view, &text("/log2"));
    assert_eq!(programs(&mut view), ["db2"], "of a function of a program");
}

#[test]
fn the_detail_of_a_row_leaves_the_order_as_it_is() {
    let mut view = view();
    press(&mut view, &[KeyCode::Enter, KeyCode::Char('s'), KeyCode::Char('r'), KeyCode::Esc]);
    assert!(picture(&mut view, 80, 14)[13].contains("sort: rate"));
    assert_eq!(programs(&mut view), ["db1", "db2", "db3"]);
}

#[test]
fn a_selection_follows_its_row() {
    let mut view = view();
    press(&mut view, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(view.selected(&view.order()), Some(1));
    view.take(snapshot(vec![row(2, 900), row(1, 600), row(3, 1)]));
    assert_eq!(view.selected(&view.order()), Some(0), "it is the fastest now");
    view.take(snapshot(vec![row(1, 600)]));
    assert_eq!(view.selected(&view.order()), Some(0), "it is gone");
    view.take(snapshot(Vec::new()));
    assert_eq!(view.selected(&view.order()), None);
    press(&mut view, &[KeyCode::Up, KeyCode::End, KeyCode::PageUp, KeyCode::Enter]);
    assert!(picture(&mut view, 80, 14)[4].contains("Nothing was written."));
    view.take(snapshot((1..=50).map(|id| row(id, 100)).collect()));
    press(&mut view, &[KeyCode::End]);
    let lines = picture(&mut view, 80, 14);
    assert!(lines[12].contains("db50"), "the table scrolls: {lines:?}");
}

#[test]
fn a_selected_row_is_seen_without_colours() {
    let mut view = view();
    press(&mut view, &[KeyCode::Down]);
    let mut terminal = Terminal::new(TestBackend::new(80, 14)).expect("memory");
    terminal.draw(|frame| draw(frame, &mut view)).expect("memory");
    let reversed = |y| terminal.backend().buffer()[(0, y)].modifier.contains(Modifier::REVERSED);
    assert_eq!([reversed(5), reversed(6)], [true, false]);
}

#[test]
fn a_call_path_is_shown_whole() {
    let mut view = view();
    press(&mut view, &[KeyCode::Down, KeyCode::Enter]);
    let text = picture(&mut view, 100, 30).join("\n");
    for part in [
        "/usr/bin/db1",
        "worker\\x1b[2J",
        "0000000000000001 (pwrite64, none)",
        "2.34 MiB/s, 60.0 %; 23.4 MiB in all",
        "p25 40.0 KiB (now 10 ms), p50 400 KiB (now 100 ms)",
        "S1; expected lifetime 400 KiB, of 9 samples",
        "/data/file1",
        "#0   Log1::append(int)  [db+0x10]",
        "#1   main",
        "first 30.0 s ago, last 200 ms ago",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    view.take(snapshot(vec![row(1, 1200)]));
    assert!(picture(&mut view, 100, 30).join("\n").contains("4.69 MiB/s"), "it goes on");
    view.take(snapshot(vec![row(2, 5)]));
    assert!(picture(&mut view, 100, 30).join("\n").contains("/usr/bin/db1"), "it stays, though silent");
    press(&mut view, &[KeyCode::Esc]);
    assert_eq!(programs(&mut view), ["db2"]);
}

#[test]
fn a_pause_holds_the_picture_still() {
    let mut view = view();
    press(&mut view, &[KeyCode::Char(' ')]);
    view.take(snapshot(vec![row(9, 600)]));
    assert_eq!(programs(&mut view), ["db1", "db2", "db3"]);
    assert!(picture(&mut view, 80, 14)[0].contains("PAUSED"));
    press(&mut view, &[KeyCode::Char(' ')]);
    assert_eq!(programs(&mut view), ["db9"]);
}

#[test]
fn losses_are_seen_and_help_is_there() {
    let mut view = view();
    let losses = [("missed_events".to_owned(), 5)].into();
    view.take(Arc::new(Snapshot { losses, ..(*snapshot(vec![row(1, 1)])).clone() }));
    assert_eq!(picture(&mut view, 80, 14)[1], "lost: missed_events 5");
    press(&mut view, &[KeyCode::Char('?')]);
    let help = picture(&mut view, 100, 20).join("\n");
    assert!(help.contains("Enter      shows the call path"), "{help}");
    assert!(
        help.contains("stream: where the scheme pcstream, which learns as it goes, put the last write"),
        "{help}"
    );
    press(&mut view, &[KeyCode::Esc]);
    let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
    assert_eq!(view.key(control('c')), Asked::End);
    assert_eq!(view.key(control('z')), Asked::Suspend);
    assert_eq!(view.key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)), Asked::End);
}

/// They would show the sequences that move the cursor as text.
#[test]
fn terminals_without_a_cursor_get_tables() {
    let has = [None, Some(""), Some("dumb"), Some("xterm-256color"), Some("linux")];
    let has = has.map(|term| has_screen(term.map(std::ffi::OsStr::new)));
    assert_eq!(has, [false, false, false, true, true]);
}

#[test]
fn the_file_system_itself_has_no_call_path() {
    let mut view = view();
    let journal = ContextNow { who: Who::FileSystem(Kind::Journal), context: None, ..row(1, 5) };
    view.take(snapshot(vec![journal]));
    press(&mut view, &[KeyCode::Enter]);
    let text = picture(&mut view, 80, 20).join("\n");
    assert!(text.contains("the file system (journal)") && !text.contains("#0"), "{text}");
}

#[test]
fn a_program_opens_into_its_call_paths() {
    let of = |id, program: &str, pages| {
        let mut row = row(id, pages);
        let context = row.context.as_mut().expect("it has one");
        Arc::make_mut(context).executable = format!("/usr/bin/{program}");
        row
    };
    let rows = || snapshot(vec![of(1, "db1", 600), of(3, "db2", 400), of(2, "db2", 300)]);
    let mut view = View { title: "/srv/db".into(), ..View::default() };
    view.take(rows());
    press(&mut view, &[KeyCode::Down, KeyCode::Char('b')]);
    assert_eq!(programs(&mut view), ["db2", "db1"], "the sum of two is the fastest");
    let lines = picture(&mut view, 80, 14);
    assert!(lines[5].starts_with("2.73 MiB/s 70.0 %") && lines[5].ends_with("2 call paths"), "{lines:?}");
    assert!(lines[13].contains("Enter call paths"), "{lines:?}");
    press(&mut view, &[KeyCode::Enter]);
    assert_eq!(programs(&mut view), ["db2", "db2"]);
    assert!(picture(&mut view, 80, 14)[13].contains("Esc programs"));
    view.take(rows());
    press(&mut view, &[KeyCode::Enter]);
    assert!(picture(&mut view, 100, 30).join("\n").contains("Log3::append(int)"), "the fastest of them");
    press(&mut view, &[KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('2'), KeyCode::Enter, KeyCode::Esc]);
    assert_eq!(programs(&mut view), ["db2", "db2"], "the filter ends first");
    press(&mut view, &[KeyCode::Esc]);
    assert_eq!(programs(&mut view), ["db2", "db1"]);
    assert_eq!(view.selected(&view.order()), Some(0));
    press(&mut view, &[KeyCode::Char('b')]);
    assert_eq!(programs(&mut view), ["db1", "db2", "db2"]);
}

#[test]
fn intervals_that_nobody_takes_are_counted_to_the_end() {
    let (sender, snapshots) = sync_channel(1);
    let learner = Learner::new(9, None).expect("nine streams");
    let mut watcher = Watcher {
        watch: Watch::new(Limits::default(), learner.streams()),
        learner,
        interval: Duration::from_secs(1),
        next: Duration::from_secs(1),
        reported: None,
        left_out: 0,
        losses: BTreeMap::new(),
        to_be_emptied: None,
        sender,
        on: "/srv".into(),
        metrics: None,
        ui: None,
        unsaid: Vec::new(),
    };
    let mut tick = |second| {
        watcher.tick(Duration::from_secs(second), &[("missed_events".to_owned(), second)].into());
        watcher.lost()
    };
    tick(1);
    tick(2);
    let lost = tick(3);
    assert_eq!((lost["intervals_not_shown"], lost["missed_events"]), (2, 3));
    assert_eq!(snapshots.recv().expect("the first").losses["intervals_not_shown"], 0, "it cannot know");
    // Who has seen enough misses nothing.
    drop(snapshots);
    assert_eq!(tick(4)["intervals_not_shown"], 2);
}

#[test]
fn a_file_keeps_what_it_has_until_the_capture_begins() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = |name: &str| Lines::open(&dir.path().join(name), &Arc::default());
    let file = dir.path().join("lines");
    std::fs::write(&file, "old").expect("it can be written");
    let lines = open("lines").expect("it can be opened");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "old");
    let to_be_emptied = lines.to_be_emptied().expect("it is open").expect("it is a regular file");
    to_be_emptied.set_len(0).expect("it can be emptied");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "");
    for part in ["meta.json", "events.parquet"] {
        std::fs::write(dir.path().join(part), "").expect("it can be written");
    }
    let refused = open("meta.json").err().expect("it is part of a trace");
    assert!(refused.to_string().contains("is part of a trace"), "{refused}");
}
