//! Which frames of a call path a line of a table shows.
//!
//! Idea: the innermost frame, and those that tell a path from the others. Each is chosen so that the
//! fewest of the paths that agree in the frames chosen so far have it. RocksDB's flush and compaction
//! share eight inner frames: showing only those would print the same line twice. Frames of the C
//! library say nothing and are skipped. Where paths go through the same functions and differ in the
//! place of a call, the place is shown: `sqlite3VdbeExec@0xeda81`, an offset in the module. A function
//! that calls itself is shown once, if need be with the places of all its calls, innermost first:
//! `walk@0x10,0x2a*3` called itself from 0x2a three times.
//!
//! Weakness: a path is compared with [`COMPARED`] others at most, the first of those with the same
//! innermost frame. A path whose frames another one has, too, is shown by frames that both have.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pcstream_trace::Context;
use pcstream_trace::paths::file_name;

use crate::symbols::{Names, frame_name, is_wrapper};

/// Most frames shown of a call path.
const SHOWN_FRAMES: usize = 3;
/// Most paths with which a path is compared.
const COMPARED: usize = 32;

/// A function that may be shown: one frame, or those in which it called itself.
struct Named {
    name: String,
    /// Of each frame, innermost first.
    offsets: Vec<u64>,
}

/// One line per context: the innermost interesting frame, and those that tell its path from the others;
/// ` < ` joins caller to callee, ` .. ` stands for frames left out.
pub fn call_paths(contexts: &[&Context], style: Names) -> Vec<String> {
    let paths: Vec<Vec<Named>> = contexts.iter().map(|context| interesting(context, style)).collect();
    let names = |path: &Vec<Named>| path.iter().map(|named| named.name.clone()).collect();
    let mut lines = distinguishing_frames(&paths.iter().map(names).collect::<Vec<_>>());
    for group in same(contexts, &lines) {
        let with_places = places(&group.iter().map(|&at| &*paths[at]).collect::<Vec<_>>());
        for (at, line) in group.into_iter().zip(distinguishing_frames(&with_places)) {
            lines[at] = line;
        }
    }
    lines
}

/// A name for each row: program, the file written most, and the frames that tell its path from others.
pub(crate) fn row_names(rows: &[&crate::ContextRow]) -> Vec<String> {
    let known: Vec<&Context> = rows.iter().filter_map(|row| row.context).collect();
    let mut paths = call_paths(&known, Names::Short).into_iter();
    let name = |row: &&crate::ContextRow| match row.who() {
        Err(name) => name.to_owned(),
        Ok(context) => {
            let program = file_name(&context.executable);
            let path = paths.next().unwrap_or_default();
            // The innermost frame is much the same in all paths of a program.
            let telling =
                path.split_once(" .. ").or_else(|| path.split_once(" < ")).map_or(&*path, |(_, rest)| rest);
            let file = row.files.first().map_or("", |(path, _)| file_name(path));
            [program, file, telling].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        }
    };
    rows.iter().map(name).collect()
}

/// One line for each path, a path being names of frames, innermost first.
pub fn distinguishing_frames(paths: &[Vec<String>]) -> Vec<String> {
    // The paths that have a name, in ascending order.
    let mut users: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, path) in paths.iter().enumerate() {
        for name in path {
            let of_name = users.entry(name).or_default();
            if of_name.last() != Some(&at) {
                of_name.push(at);
            }
        }
    }
    paths.iter().map(|path| line(path, &chosen(path, &users))).collect()
}

/// Positions of the frames to show, in ascending order.
fn chosen(path: &[String], users: &HashMap<&str, Vec<usize>>) -> Vec<usize> {
    let Some(innermost) = path.first() else { return Vec::new() };
    let users_of = |index: usize| &users[path[index].as_str()];
    let mut others: Vec<usize> = users[innermost.as_str()].iter().copied().take(COMPARED).collect();
    let mut shown = BTreeSet::from([0]);
    while shown.len() < SHOWN_FRAMES.min(path.len()) {
        let left =
            |index: usize| others.iter().filter(|at| users_of(index).binary_search(at).is_ok()).count();
        let unshown = (1..path.len()).filter(|index| !shown.contains(index));
        let Some(best) = unshown.min_by_key(|&index| (left(index), users_of(index).len(), index)) else {
            break;
        };
        others.retain(|at| users_of(best).binary_search(at).is_ok());
        shown.insert(best);
    }
    shown.into_iter().collect()
}

fn line(path: &[String], shown: &[usize]) -> String {
    let mut line = String::new();
    for (position, &index) in shown.iter().enumerate() {
        if position > 0 {
            line.push_str(if shown[position - 1] + 1 == index { " < " } else { " .. " });
        }
        line.push_str(&path[index]);
    }
    line
}

/// Functions worth showing of a call path, innermost first, without repetitions in a row.
fn interesting(context: &Context, style: Names) -> Vec<Named> {
    let pick = |skip: bool| -> Vec<Named> {
        let mut named: Vec<Named> = Vec::new();
        for frame in context.frames.iter().filter(|frame| !(skip && is_wrapper(frame))) {
            let name = frame_name(frame, style);
            match named.last_mut() {
                Some(last) if last.name == name => last.offsets.push(frame.offset),
                _ => named.push(Named { name, offsets: vec![frame.offset] }),
            }
        }
        named
    };
    match pick(true) {
        frames if frames.is_empty() => pick(false),
        frames => frames,
    }
}

/// Positions of a program's equal lines, for each line that it has more than once.
fn same(contexts: &[&Context], lines: &[String]) -> Vec<Vec<usize>> {
    let mut by_line: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (at, (context, line)) in contexts.iter().zip(lines).enumerate() {
        by_line.entry((&context.executable, line)).or_default().push(at);
    }
    by_line.into_values().filter(|group| group.len() > 1).collect()
}

/// Names of these paths' functions, with the places of calls where they have a name with different ones.
fn places(paths: &[&[Named]]) -> Vec<Vec<String>> {
    let mut offsets: HashMap<&str, BTreeSet<&[u64]>> = HashMap::new();
    for named in paths.iter().copied().flatten() {
        offsets.entry(&named.name).or_default().insert(&named.offsets);
    }
    let with_place = |named: &Named| match offsets[named.name.as_str()].len() {
        0 | 1 => named.name.clone(),
        _ => format!("{}@{}", named.name, in_text(&named.offsets)),
    };
    paths.iter().map(|path| path.iter().map(with_place).collect()).collect()
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
    use pcstream_trace::Frame;

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
    fn full_names_tell_instances_of_a_template_apart() {
        let of = |argument: &str| {
            let name = format!("rocksdb::Writer<{argument}>::Add(rocksdb::Slice const&)");
            context(&[("/lib/libc.so.6", "write"), ("/bin/db", &name)])
        };
        let (one, other) = (of("int"), of("char"));
        assert_eq!(call_paths(&[&one, &other], Names::Short), ["Writer::Add", "Writer::Add"]);
        let full = call_paths(&[&one, &other], Names::Full);
        assert_eq!(full[0], "rocksdb::Writer<int>::Add(rocksdb::Slice const&)");
        assert_ne!(full[0], full[1]);
    }
}
