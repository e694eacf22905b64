//! Which frames of a call path a line of a table shows.
//!
//! Idea: the program's innermost frame, and those that tell a path from the others. Each is chosen so
//! that the fewest of the paths that agree in the frames chosen so far have it. RocksDB's flush and
//! compaction share eight inner frames: showing only those would print the same line twice. Frames of
//! standard libraries say little, so they are shown only where nothing else tells paths apart. Where
//! paths go through the same functions and differ in the place of a call, the place is shown:
//! `sqlite3VdbeExec@0xeda81`, an offset in the module. A function that calls itself is shown once, if
//! need be with the places of all its calls, innermost first: `walk@0x10,0x2a*3` called itself from 0x2a
//! three times.
//!
//! Weakness: a path is compared with `COMPARED` others at most, the first of those with the same
//! innermost frame, and `COMPARED` of those whose lines would be the same. A path whose frames another
//! one has, too, is shown by frames that both have. At most `MOST_FRAMES` are shown, and paths with the
//! same frames in another order look the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pcstream_trace::Context;
use pcstream_trace::paths::file_name;

use crate::functions::Functions;
use crate::layout::clipped;
use crate::symbols::{Names, own_frames};

/// Frames shown of a call path.
const SHOWN_FRAMES: usize = 3;
/// Most frames shown where fewer do not tell a path from the others.
const MOST_FRAMES: usize = 6;
/// Digits of a signature that tell rows with the same name apart, and say where a row is in a table.
const SIGNATURE_DIGITS: usize = 4;
/// Most paths with which a path is compared.
const COMPARED: usize = 32;

/// A function that may be shown: one frame, or those in which it called itself.
struct Named {
    name: String,
    /// Of each frame, innermost first.
    offsets: Vec<u64>,
    /// Whether it is the program's own.
    own: bool,
}

/// A call path as names, innermost first.
struct Path {
    names: Vec<String>,
    /// Of each name: whether it is the program's own. Others are shown only if these do not tell paths apart.
    own: Vec<bool>,
}

impl Path {
    fn of(functions: &[Named]) -> Path {
        let (names, own) = functions.iter().map(|named| (named.name.clone(), named.own)).unzip();
        Path { names, own }
    }
}

/// One line per context: the program's innermost frame, and those that tell its path from the others; ` < ` joins
/// caller to callee, ` .. ` stands for frames of the program left out.
pub fn call_paths(contexts: &[&Context], style: Names) -> Vec<String> {
    let names = Functions::of(contexts.iter().copied(), style);
    let own = |context: &&Context| Path::of(&functions(context, &names, true));
    let mut paths: Vec<Path> = contexts.iter().map(own).collect();
    let mut lines = Lines::new(&paths).all();
    let groups = same(contexts, &lines);
    for group in &groups {
        let all: Vec<_> = group.iter().map(|&at| functions(contexts[at], &names, false)).collect();
        group.iter().zip(with_places(&all)).for_each(|(&at, path)| paths[at] = path);
    }
    let better = Lines::new(&paths);
    for (group, &at) in groups.iter().flat_map(|group| group.iter().map(move |at| (group, at))) {
        lines[at] = better.line(at, group);
    }
    lines
}

/// A name for each row: program, the file written most, and the frames that tell its path from others.
pub(crate) fn row_names(rows: &[crate::ContextRow]) -> Vec<String> {
    let known: Vec<&Context> = rows.iter().filter_map(|row| row.context).collect();
    let paths = call_paths(&known, Names::Short);
    let mut begin_so: HashMap<(&str, &str), usize> = HashMap::new();
    for (context, path) in known.iter().zip(&paths) {
        *begin_so.entry((&context.executable, first_and_rest(path).0)).or_default() += 1;
    }
    let mut paths = paths.iter();
    let name = |row: &crate::ContextRow| match row.who() {
        Err(name) => name.to_owned(),
        Ok(context) => {
            let program = context.program();
            let path = paths.next().map_or("", String::as_str);
            let telling = match first_and_rest(path) {
                (first, Some(rest)) if begin_so[&(context.executable.as_str(), first)] > 1 => rest,
                _ => path,
            };
            let file = row.files.first().map_or("", |(path, _)| file_name(path));
            [program, file, telling].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        }
    };
    rows.iter().map(name).collect()
}

/// The name of a row in at most `width` characters, with the first digits of its signature, which tables have.
pub(crate) fn row_label(row: &crate::ContextRow, name: &str, width: usize) -> String {
    let Some(context) = row.context else { return clipped(name, width) };
    let signature = context.signature.to_string();
    format!("{} {}", clipped(name, width - SIGNATURE_DIGITS - 1), &signature[..SIGNATURE_DIGITS])
}

/// The innermost frame of a line, and the others.
fn first_and_rest(line: &str) -> (&str, Option<&str>) {
    let ends = [" < ", " .. "].map(|end| line.split_once(end));
    let first = ends.into_iter().flatten().min_by_key(|(first, _)| first.len());
    first.map_or((line, None), |(first, rest)| (first, Some(rest)))
}

/// One line for each path, a path being names of frames, innermost first.
pub fn distinguishing_frames(paths: &[Vec<String>]) -> Vec<String> {
    let path = |names: &Vec<String>| Path { names: names.clone(), own: vec![true; names.len()] };
    Lines::new(&paths.iter().map(path).collect::<Vec<_>>()).all()
}

/// Lines of paths that differ where the paths do.
struct Lines<'a> {
    paths: &'a [Path],
    /// The paths that have a name, in ascending order.
    users: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Lines<'a> {
    fn new(paths: &'a [Path]) -> Lines<'a> {
        let mut users: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, path) in paths.iter().enumerate() {
            for name in &path.names {
                let of_name = users.entry(name).or_default();
                if of_name.last() != Some(&at) {
                    of_name.push(at);
                }
            }
        }
        Lines { paths, users }
    }

    fn all(&self) -> Vec<String> {
        (0..self.paths.len()).map(|at| self.line(at, &[])).collect()
    }

    /// The line of a path that is compared with `others`, too.
    fn line(&self, at: usize, others: &[usize]) -> String {
        let path = &self.paths[at];
        let mut line = String::new();
        let mut last = None;
        for index in self.chosen(path, others) {
            line.push_str(match last {
                None => "",
                Some(last) if path.own[last + 1..index].contains(&true) => " .. ",
                Some(_) => " < ",
            });
            line.push_str(&path.names[index]);
            last = Some(index);
        }
        line
    }

    /// Positions of the names to show.
    fn chosen(&self, path: &Path, others: &[usize]) -> BTreeSet<usize> {
        let Some(innermost) = path.own.iter().position(|own| *own) else { return BTreeSet::new() };
        let users_of = |index: usize| &self.users[path.names[index].as_str()];
        let near = users_of(innermost).iter().take(COMPARED);
        let mut others: BTreeSet<usize> = near.chain(others.iter().take(COMPARED)).copied().collect();
        let has = |index: usize, at: &usize| users_of(index).binary_search(at).is_ok();
        others.retain(|at| has(innermost, at));
        let mut shown = BTreeSet::from([innermost]);
        while shown.len() < MOST_FRAMES {
            let left = |index: usize| others.iter().filter(|at| has(index, at)).count();
            let unshown = (0..path.names.len()).filter(|index| !shown.contains(index));
            let worth = |index: usize| (left(index), !path.own[index], users_of(index).len(), index);
            let Some((left, other, _, best)) = unshown.map(worth).min() else { break };
            let tells = left < others.len();
            if !tells && (other || shown.len() >= SHOWN_FRAMES) {
                break;
            }
            others.retain(|at| has(best, at));
            shown.insert(best);
        }
        shown
    }
}

/// Functions of a call path, innermost first, without repetitions in a row.
fn functions(context: &Context, names: &Functions, only_own: bool) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::new();
    let frames = context.frames.iter().zip(own_frames(context));
    for (frame, own) in frames.filter(|(_, own)| *own || !only_own) {
        let name = names.name(frame);
        match named.last_mut() {
            Some(last) if last.name == name => last.offsets.push(frame.offset),
            _ => named.push(Named { name, offsets: vec![frame.offset], own }),
        }
    }
    named
}

/// Positions of a program's equal lines, for each line that it has more than once.
fn same(contexts: &[&Context], lines: &[String]) -> Vec<Vec<usize>> {
    let mut by_line: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (at, (context, line)) in contexts.iter().zip(lines).enumerate() {
        by_line.entry((&context.executable, line)).or_default().push(at);
    }
    by_line.into_values().filter(|group| group.len() > 1).collect()
}

/// These paths, with the places of calls where they have a name with different ones.
fn with_places(paths: &[Vec<Named>]) -> Vec<Path> {
    let mut offsets: HashMap<&str, BTreeSet<&[u64]>> = HashMap::new();
    for named in paths.iter().flatten() {
        offsets.entry(&named.name).or_default().insert(&named.offsets);
    }
    let with_place = |named: &Named| match offsets[named.name.as_str()].len() {
        0 | 1 => named.name.clone(),
        _ => format!("{}@{}", named.name, in_text(&named.offsets)),
    };
    let path = |path: &Vec<Named>| Path { names: path.iter().map(with_place).collect(), ..Path::of(path) };
    paths.iter().map(path).collect()
}

/// `0x10,0x2a*3`: the last is there three times in a row.
fn in_text(offsets: &[u64]) -> String {
    let runs = offsets.chunk_by(|one, next| one == next);
    let text = |run: &[u64]| match run.len() {
        1 => format!("{:#x}", run[0]),
        times => format!("{:#x}*{times}", run[0]),
    };
    runs.map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use pcstream_replay::Writer;
    use pcstream_trace::{Frame, Signature};

    use super::*;

    fn context(frames: &[(&str, &str)]) -> Context {
        let frame = |&(module, symbol): &(&str, &str)| Frame {
            module: module.into(),
            symbol: symbol.into(),
            offset: 0x1234,
            ..Frame::default()
        };
        Context { frames: frames.iter().map(frame).collect(), ..Context::default() }
    }

    #[test]
    fn frames_that_tell_contexts_apart_are_shown() {
        let common = [
            ("/lib/libc.so.6", "write"),
            ("/bin/db", "PosixWrite"),
            ("/bin/db", "Append"),
            ("/bin/db", "Flush"),
        ];
        let with = |tail: &[(&str, &str)]| context(&[&common, tail].concat());
        let flush = with(&[("/bin/db", "FlushJob::Run"), ("/bin/db", "BGThread")]);
        let compaction = with(&[("/bin/db", "CompactionJob::Run"), ("/bin/db", "BGThread")]);
        assert_eq!(
            call_paths(&[&flush, &compaction], Names::Short),
            ["PosixWrite < Append .. FlushJob::Run", "PosixWrite < Append .. CompactionJob::Run"]
        );
    }

    #[test]
    fn frames_are_chosen_one_after_the_other() {
        // By rarity alone, "x" and "y" of the first path would be shown, which the second has, too.
        let of = |names: &str| names.chars().map(String::from).collect::<Vec<_>>();
        let paths = ["wxyab", "wxyac", "wpqbc", "wpqcb", "wpqab"].map(of);
        let lines = distinguishing_frames(&paths);
        assert_eq!(lines[0], "w < x .. b");
        assert_eq!(lines[1], "w < x .. c");
        let innermost_alone = distinguishing_frames(&[of("w"), of("")]);
        assert_eq!(innermost_alone, ["w", ""]);
    }

    #[test]
    fn the_innermost_frame_is_left_out_of_names_of_rows_that_share_it() {
        let paths = [&["append", "flush"][..], &["append", "compact"], &["put", "main"]];
        let mut signatures = 0xa1u64..;
        let contexts = paths.map(|path| {
            let frames: Vec<_> = path.iter().map(|symbol| ("/bin/db", *symbol)).collect();
            let signature = Signature(signatures.next().expect("endless") << 48);
            Context { executable: "/bin/db".into(), signature, ..context(&frames) }
        });
        let rows = contexts.each_ref().map(|context| crate::ContextRow {
            context: Some(context),
            writer: Cow::Owned(Writer::default()),
            share: 0.0,
            stream: None,
            files: vec![("/data/log".into(), 1)],
            lines: Vec::new(),
        });
        let names = row_names(&rows);
        assert_eq!(names, ["db log flush", "db log compact", "db log put < main"]);
        let labels = |width| [0, 1, 2].map(|at| row_label(&rows[at], &names[at], width));
        assert_eq!(labels(19), ["db log flush 00a1", "db log compact 00a2", "db log put < ~ 00a3"]);
        assert_eq!(labels(8), ["db~ 00a1", "db~ 00a2", "db~ 00a3"]);
    }

    #[test]
    fn calls_from_two_places_of_one_function_differ() {
        let called_from = |offset: u64| {
            let mut made = context(&[("/bin/db", "write_page"), ("/bin/db", "commit"), ("/bin/db", "step")]);
            made.frames[1].offset = offset;
            made
        };
        let (one, other) = (called_from(0x10), called_from(0x2a));
        assert_eq!(
            call_paths(&[&one, &other], Names::Short),
            ["write_page < commit@0x10 < step", "write_page < commit@0x2a < step"]
        );
        assert_eq!(call_paths(&[&one], Names::Short), ["write_page < commit < step"]);
        let elsewhere = Context { executable: "/bin/other".into(), ..other };
        assert_eq!(call_paths(&[&one, &elsewhere], Names::Short)[1], "write_page < commit < step");
        assert_eq!(
            call_paths(&[&one, &one], Names::Short)[1],
            "write_page < commit < step",
            "equal paths stay"
        );
    }

    #[test]
    fn depths_and_places_of_recursion_differ() {
        let recursive = |offsets: &[u64]| {
            let mut made = context(&vec![("/bin/db", "walk"); offsets.len()]);
            made.frames.iter_mut().zip(offsets).for_each(|(frame, offset)| frame.offset = *offset);
            made.frames.extend(context(&[("/bin/db", "main")]).frames);
            made
        };
        let [flat, deep, other] =
            [&[0x10][..], &[0x10, 0x2a, 0x2a, 0x2a], &[0x10, 0x2a, 0x3c, 0x2a]].map(recursive);
        assert_eq!(
            call_paths(&[&flat, &deep, &other], Names::Short),
            ["walk@0x10 < main", "walk@0x10,0x2a*3 < main", "walk@0x10,0x2a,0x3c,0x2a < main"]
        );
        assert_eq!(call_paths(&[&deep], Names::Short), ["walk < main"]);
    }

    #[test]
    fn stripped_code_and_pure_library_paths_still_say_something() {
        let stripped = context(&[("/usr/bin/prog", "")]);
        let library = context(&[("/lib/x86_64-linux-gnu/libc.so.6", "__libc_start_main")]);
        let nothing = context(&[]);
        let paths = call_paths(&[&stripped, &library, &nothing], Names::Short);
        assert_eq!(paths, ["prog+0x1234", "__libc_start_main", ""]);
    }

    #[test]
    fn frames_of_the_program_are_shown_before_those_of_its_standard_library() {
        let put = context(&[
            ("/bin/db", "internal/runtime/syscall/linux.Syscall6"),
            ("/bin/db", "syscall.pwrite"),
            ("/bin/db", "os.(*File).WriteAt"),
            ("/bin/db", "main.(*Btree).Put"),
            ("/bin/db", "main.main"),
            ("/bin/db", "runtime.main"),
        ]);
        let compact = context(&[
            ("/lib/libc.so.6", "write"),
            ("/bin/db", "<std::fs::File as std::io::Write>::write"),
            ("/bin/db", "std::io::buffered::bufwriter::BufWriter<W>::flush_buf"),
            ("/bin/db", "db::compact"),
            ("/bin/db", "std::rt::lang_start_internal"),
        ]);
        let none_of_its_own = context(&[("/lib/libc.so.6", "write"), ("/bin/db", "std::fs::write")]);
        assert_eq!(
            call_paths(&[&put, &compact, &none_of_its_own], Names::Short),
            ["Btree.Put < main.main", "db::compact", "fs::write"]
        );
        let mut once_more = compact.clone();
        once_more.frames[3].offset = 0x2a;
        once_more.frames.remove(2);
        let of_both = call_paths(&[&compact, &once_more], Names::Short);
        assert_eq!(of_both, ["db::compact@0x1234", "db::compact@0x2a"]);
    }

    #[test]
    fn frames_of_libraries_are_shown_where_they_alone_differ() {
        let through = |inner: &[&str]| {
            let libc = inner.iter().map(|symbol| ("/lib/libc.so.6", *symbol)).collect::<Vec<_>>();
            context(&[&libc, &[("/bin/head", "copy"), ("/bin/head", "main")][..]].concat())
        };
        let one = through(&["write", "_IO_file_xsputn", "fwrite"]);
        let mut other = through(&["write", "_IO_do_write", "_IO_file_xsputn", "fwrite"]);
        let of_both = call_paths(&[&one, &other], Names::Short);
        assert_eq!(of_both, ["copy < main", "_IO_do_write < copy < main"]);
        other.frames.remove(1);
        other.frames[0].offset = 0x2a;
        let of_both = call_paths(&[&one, &other], Names::Short);
        assert_eq!(of_both, ["write@0x1234 < copy < main", "write@0x2a < copy < main"]);
    }

    #[test]
    fn as_many_frames_are_shown_as_it_takes() {
        // The four differ in pairs only, each pair in another frame; libc's frame is the third that tells.
        let path = |libc: u64, inner: &str, outer: &str| {
            let mut made = context(&[
                ("/lib/libc.so.6", "write"),
                ("/bin/db", "append"),
                ("/bin/db", inner),
                ("/bin/db", "put"),
                ("/bin/db", outer),
            ]);
            made.frames[0].offset = libc;
            made
        };
        let mut made = Vec::new();
        for libc in [0x10, 0x2a] {
            for inner in ["log", "index"] {
                made.extend(["user", "batch"].map(|outer| path(libc, inner, outer)));
            }
        }
        let lines = call_paths(&made.iter().collect::<Vec<_>>(), Names::Short);
        assert_eq!(lines[0], "write@0x10 < append < log .. user");
        assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len(), "{lines:?}");
    }

    #[test]
    fn whole_names_tell_instances_of_a_template_apart() {
        let of = |argument: &str| {
            let name = format!("rocksdb::Writer<{argument}>::Add(rocksdb::Slice const&)");
            context(&[("/lib/libc.so.6", "write"), ("/bin/db", &name)])
        };
        let (one, other) = (of("int"), of("char"));
        let whole = ["int", "char"].map(|of| format!("rocksdb::Writer<{of}>::Add(rocksdb::Slice const&)"));
        assert_eq!(call_paths(&[&one, &other], Names::Short), whole);
        assert_eq!(call_paths(&[&one, &other], Names::Full), whole);
        assert_eq!(call_paths(&[&one], Names::Short), ["Writer::Add"]);
    }
}
