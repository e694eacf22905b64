//! Sweeps: rows are what single simulations say, in the order of the flags, and a killed sweep goes on.

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Place, ends_with, ends_with_in, json, refuses, text};
use serde_json::Value;

/// The rows of a sweep into JSON.
fn rows(path: &str) -> Vec<Value> {
    serde_json::from_str(&fs::read_to_string(path).expect("the sweep wrote it")).expect("a list of rows")
}

#[test]
fn rows_are_what_single_simulations_say_in_the_order_of_the_flags() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.json"));
    let grid = ["--streams", "3,5", "--spare-factor", ".07,.125", "--gc", "own,internal"];
    let schemes = ["--scheme", "baseline,pcstream,oracle", "--set", "pcstream.mapper.newcomer_pages=1,64"];
    ends_with(0, &[&["sweep", &trace, "-o", &out], &grid[..], &schemes].concat());
    let rows = rows(&out);
    assert_eq!(rows.len(), 4 * 8);
    let mut next = rows.iter();
    for (scheme, newcomer) in
        [("baseline", None), ("pcstream", Some("1")), ("pcstream", Some("64")), ("oracle", None)]
    {
        for spare in ["0.07", "0.125"] {
            for streams in ["3", "5"] {
                let mut flags =
                    vec!["simulate", &trace, "--scheme", scheme, "--streams", streams, "--json", "-"];
                flags.extend(["--spare-factor", spare, "--gc", "own,internal"]);
                let setting = newcomer.map(|pages| format!("pcstream.mapper.newcomer_pages={pages}"));
                flags.extend(setting.iter().flat_map(|setting| ["--set", setting.as_str()]));
                let single = json(&flags);
                for result in single["results"].as_array().unwrap() {
                    let row = next.next().expect("as many rows");
                    assert_eq!(row["scheme"], scheme);
                    assert_eq!(
                        row["pcstream.mapper.newcomer_pages"],
                        newcomer.map_or(Value::Null, Value::from)
                    );
                    assert_eq!(row["spare_factor"].to_string(), spare);
                    assert_eq!(row["streams"].to_string(), streams);
                    assert_eq!(row["superblock_pages"], single["device"]["superblock_pages"]);
                    for same in
                        ["gc_destination", "waf", "steady_waf", "gc_pages", "erases", "default_stream_share"]
                    {
                        assert_eq!(row[same], result[same], "{scheme} {spare} {streams}: {same}");
                    }
                }
            }
        }
    }
}

/// Each named device brings its own GC destinations, and a list of watermarks makes a row each.
#[test]
fn profiles_and_watermarks_are_axes() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.json"));
    let flags = ["--scheme", "baseline", "--streams", "3", "--superblock-pages", "16"];
    let grid = ["--profile", "femu,pm963-480g", "--background-gc", "4:8,8:16"];
    ends_with(0, &[&["sweep", &trace, "-o", &out], &flags[..], &grid].concat());
    let rows = rows(&out);
    let mut next = rows.iter();
    for profile in ["femu", "pm963-480g"] {
        for (low, high) in [(4, 8), (8, 16)] {
            let between = format!("{low}:{high}");
            let one = ["--profile", profile, "--background-gc", &between, "--json", "-"];
            let single = json(&[&["simulate", &trace], &flags[..], &one].concat());
            for result in single["results"].as_array().unwrap() {
                let row = next.next().expect("as many rows");
                assert_eq!((&row["profile"], &row["seed"]), (&profile.into(), &1.into()));
                assert_eq!(
                    (&row["background_gc_low"], &row["background_gc_high"]),
                    (&low.into(), &high.into())
                );
                for same in ["gc_destination", "waf", "background_erases"] {
                    assert_eq!(row[same], result[same], "{profile} {between}: {same}");
                }
            }
        }
    }
    assert!(next.next().is_none());
    ends_with(0, &[&["sweep", &trace, "-o", &out], &flags[..]].concat());
    assert_eq!(self::rows(&out)[0]["profile"], Value::Null);
}

/// How full a device is, by addresses or by live data, is an axis; a share that does not fit is left out.
#[test]
fn shares_of_packed_addresses_are_an_axis() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.json"));
    let flags = ["--scheme", "baseline,pcstream", "--gc", "own"];
    for (flag, column) in [("--pack", "pack"), ("--pack-live", "pack_live")] {
        let grid = [flag, ".5,.9", "--streams", "3,5"];
        ends_with(0, &[&["sweep", &trace, "-o", &out], &flags[..], &grid].concat());
        let rows = rows(&out);
        assert_eq!(rows.len(), 8);
        let mut next = rows.iter();
        for scheme in ["baseline", "pcstream"] {
            for (share, streams) in [("0.5", "3"), ("0.5", "5"), ("0.9", "3"), ("0.9", "5")] {
                let one =
                    ["--scheme", scheme, "--gc", "own", flag, share, "--streams", streams, "--json", "-"];
                let (row, single) = (next.next().unwrap(), json(&[&["simulate", &trace], &one[..]].concat()));
                assert_eq!((row["scheme"].as_str(), row[column].to_string()), (Some(scheme), share.into()));
                assert_eq!(row["logical_pages"], single["device"]["logical_pages"]);
                assert_eq!(row["waf"], single["results"][0]["waf"], "{scheme} {share} {streams}");
            }
        }
    }
}

/// What is on the device, how large it is and how many requests wait are axes; a device that is too small is left out.
#[test]
fn capacities_prefills_and_queue_depths_are_axes() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.json"));
    let flags = ["--scheme", "baseline", "--gc", "own", "--streams", "1", "--timing"];
    let grid = ["--capacity", "256M,300M", "--prefill", "trace,.5", "--queue-depth", "1,16"];
    ends_with(0, &[&["sweep", &trace, "-o", &out], &flags[..], &grid].concat());
    let rows = rows(&out);
    assert_eq!(rows.len(), 8);
    let mut next = rows.iter();
    for (capacity, bytes) in [("256M", 256 << 20), ("300M", 300 << 20)] {
        for (prefill, share) in [("trace", Value::Null), (".5", 0.5.into())] {
            for depth in ["1", "16"] {
                let one =
                    ["--capacity", capacity, "--prefill", prefill, "--queue-depth", depth, "--json", "-"];
                let single = json(&[&["simulate", &trace], &flags[..], &one].concat());
                let (row, result) = (next.next().unwrap(), &single["results"][0]);
                assert_eq!((row["capacity"].as_u64(), &row["prefill"]), (Some(bytes), &share));
                assert_eq!(row["queue_depth"].to_string(), depth);
                assert_eq!(row["logical_pages"], single["device"]["logical_pages"]);
                for same in ["waf", "prefill_pages"] {
                    let expected = if same == "waf" { &result[same] } else { &single["device"][same] };
                    assert_eq!(&row[same], expected, "{capacity} {prefill} {depth}: {same}");
                }
                assert_eq!(row["iops"], result["iops"], "{capacity} {prefill} {depth}");
            }
        }
    }
    let wafs: Vec<String> = rows.iter().step_by(2).map(|row| row["waf"].to_string()).collect();
    assert_eq!(wafs.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{wafs:?}");
    let small = ["--capacity", "1M,256M", "-o", &out];
    let (_, err) = ends_with(3, &[&["sweep", &trace], &small[..], &flags].concat());
    assert!(err.contains("left out: --capacity 1048576"), "{err}");
    refuses(2, &["sweep", &trace, "-o", &out, "--queue-depth", "1,2"], &["--timing"]);
    refuses(2, &["sweep", &trace, "-o", &out, "--prefill", ".5,2"], &["'2'", "or 'trace'"]);
}

/// Full, with static data added, of a size of its own: as `simulate` has it.
#[test]
fn a_capacity_is_filled_as_simulate_fills_it() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.json"));
    let flags = ["--scheme", "baseline", "--gc", "own", "--streams", "1"];
    for (of_sweep, of_simulate) in [("--utilisation", "--fill"), ("--pack", "--pack")] {
        let grid = ["--capacity", "300M,400M", of_sweep, ".9,1"];
        ends_with(0, &[&["sweep", &trace, "-o", &out], &flags[..], &grid].concat());
        let rows = rows(&out);
        let mut next = rows.iter();
        for capacity in ["300M", "400M"] {
            for share in [".9", "1"] {
                let one = ["--capacity", capacity, of_simulate, share, "--json", "-"];
                let (row, single) =
                    (next.next().unwrap(), json(&[&["simulate", &trace], &flags[..], &one].concat()));
                assert_eq!(row["logical_pages"], single["device"]["logical_pages"]);
                assert_eq!(row["waf"], single["results"][0]["waf"], "{capacity} {of_sweep} {share}");
            }
        }
    }
}

/// Finished runs are taken for those of the same size, prefill and queue depth alone.
#[test]
fn a_sweep_goes_on_with_other_axes() {
    let place = Place::new();
    let (trace, full, whole) = (place.path("t.pctrace"), place.path("full.csv"), place.path("whole.csv"));
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let flags = ["--scheme", "baseline", "--gc", "own", "--streams", "1", "--timing"];
    let sweep = |code, out: &str, grid: &[&str]| {
        ends_with(code, &[&["sweep", &trace, "-o", out], &flags[..], grid].concat()).1
    };
    sweep(1, &full, &["--prefill", ".5", "--queue-depth", "1"]);
    let grid = ["--capacity", "256M,300M", "--prefill", "trace,.5", "--queue-depth", "1,16"];
    assert!(!sweep(1, &full, &grid).contains("finished before"), "no capacity was asked for");
    let err = sweep(1, &full, &["--capacity", "300M,400M", "--prefill", ".5,.6", "--queue-depth", "1,2"]);
    assert!(err.contains("finished before: 1 run ("), "{err}");
    fs::remove_file(&full).unwrap();
    assert!(sweep(0, &full, &grid).contains("finished before: 8 runs"));
    sweep(0, &whole, &grid);
    assert_eq!(fs::read_to_string(&full).unwrap(), fs::read_to_string(&whole).unwrap());
}

/// With discards and without them is an axis.
#[test]
fn discards_are_an_axis() {
    let place = Place::new();
    let (trace, out) = (place.path("files.pctrace"), place.path("r.json"));
    let sizes = ["--pages", "16K", "--writes", "100K", "--file-pages", "100"];
    ends_with(0, &[&["generate", "files", "-o", &trace], &sizes[..]].concat());
    // Pages die by discards, so those that look ahead see another future without them.
    let flags = ["--scheme", "baseline,oracle", "--gc", "own", "--spare-factor", ".05", "--streams", "3"];
    ends_with(0, &[&["sweep", &trace, "-o", &out, "--discard", "no,yes"], &flags[..]].concat());
    let rows = rows(&out);
    for (discard, flag) in [(false, &["--no-discard"][..]), (true, &[])] {
        let single = json(&[&["simulate", &trace, "--json", "-"], &flags[..], flag].concat());
        let waf = |rows: &[Value]| rows.iter().map(|row| row["waf"].clone()).collect::<Vec<_>>();
        let own: Vec<Value> = rows.iter().filter(|row| row["discard"] == discard).cloned().collect();
        assert_eq!(waf(&own), waf(single["results"].as_array().unwrap()), "discards: {discard}");
    }
    assert_ne!(rows[0]["waf"], rows[1]["waf"]);
    ends_with(2, &[&["sweep", &trace, "-o", &out, "--discard", "maybe"], &flags[..]].concat());
}

/// A row can be found again, and says what its device is.
#[test]
fn rows_name_their_trace_and_build_and_actual_sizes() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.json"));
    let flags = ["--scheme", "baseline", "--gc", "own", "--json", "-"];
    for (flag, asked, other) in [
        ("--spare-factor", "spare_factor", "overprovisioning"),
        ("--overprovision", "overprovisioning", "spare_factor"),
    ] {
        ends_with(0, &["sweep", &trace, "-o", &out, "--scheme", "baseline", "--gc", "own", flag, ".07"]);
        let row = &rows(&out)[0];
        let single = json(&[&["simulate", &trace, flag, ".07"], &flags[..]].concat());
        assert_eq!(row["pcstream"], single["pcstream"]);
        assert_eq!(row["trace_id"], single["trace"]["id"]);
        assert_eq!((&row[asked], &row[other]), (&0.07.into(), &Value::Null), "{flag}");
        let device = &single["device"];
        assert_eq!(row["actual_spare_factor"], device["spare_factor"]);
        assert_eq!(row["actual_overprovisioning"], device["overprovisioning"]);
        assert!(row[format!("actual_{asked}")].as_f64().unwrap() > 0.07);
    }
}

/// Rows of sweeps under other flags can be put together.
#[test]
fn rows_say_what_was_asked_of_all_runs() {
    let place = Place::new();
    let (trace, out, csv, rules) =
        (place.path("t.pctrace"), place.path("r.json"), place.path("r.csv"), place.path("my.rules"));
    fs::write(&rules, "label=hot -> 1\n").unwrap();
    let sweep = |out: &str, flags: &[&str]| {
        let scheme = ["--scheme", "baseline,manual,pcstream", "--gc", "own", "--streams", "2"];
        ends_with(0, &[&["sweep", &trace, "-o", out], &scheme[..], flags].concat());
    };
    sweep(&out, &[]);
    let row = &rows(&out)[0];
    for name in ["prefill", "pack", "pack_live", "rules", "rules_xxh3", "table_bytes", "pools", "queue_depth"]
    {
        assert_eq!(row[name], Value::Null, "{name}");
    }
    assert_eq!([&row["discard"], &row["timing"], &row["open_loop"]], [true, false, false]);
    let flags =
        ["--pack", "0.9", "--no-discard", "--rules", &rules, "--table-bytes", "1300", "--pools", "1,2"];
    let timing = ["--timing", "--queue-depth", "4", "--prefill", "0.5"];
    sweep(&out, &[&flags[..], &timing].concat());
    let row = &rows(&out)[0];
    let single = json(
        &[
            &["simulate", &trace, "--scheme", "manual,pcstream", "--gc", "own", "--streams", "2"],
            &flags[..],
            &["--json", "-"],
        ]
        .concat(),
    );
    assert_eq!(
        (&row["rules"], &row["rules_xxh3"]),
        (&rules.as_str().into(), &single["settings"]["rules"]["xxh3"])
    );
    assert_eq!(
        (&row["pack"], &row["prefill"], &row["table_bytes"]),
        (&0.9.into(), &0.5.into(), &1300.into())
    );
    assert_eq!((&row["pools"], &row["queue_depth"]), (&"1,2".into(), &4.into()));
    assert_eq!([&row["discard"], &row["timing"], &row["open_loop"]], [false, true, false]);
    sweep(&csv, &["--no-discard"]);
    let (text, cell) =
        (fs::read_to_string(&csv).unwrap(), |line: &str, at| line.split(',').nth(at).unwrap().to_owned());
    let [head, row] = [0, 1].map(|line| text.lines().nth(line).unwrap());
    let discard = head.split(',').position(|name| name == "discard").unwrap();
    assert_eq!(
        (cell(row, discard), cell(head, 22)),
        ("false".into(), "waf".into()),
        "howto/which-ssd.md counts"
    );
    sweep(&place.path("r.parquet"), &["--no-discard"]);
}

#[test]
fn a_sweep_into_stdout_is_the_csv_that_a_file_gets_and_leaves_none() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.csv"));
    let flags = ["sweep", &trace, "--scheme", "baseline", "--streams", "2,3", "-o"];
    let (rows, err) = ends_with_in(place.directory(), 0, &[&flags[..], &["-"]].concat());
    assert!(err.contains("stdout: 4 rows"), "{err}");
    ends_with(0, &[&flags[..], &[&out]].concat());
    assert_eq!(rows, fs::read_to_string(&out).unwrap());
    assert!(!fs::exists(place.path("-.unfinished")).unwrap());
}

/// Another build may come to other results, so what it finished is not taken.
#[test]
fn a_sweep_does_not_go_on_where_another_build_was() {
    let place = Place::new();
    let (trace, out, other) = (place.path("t.pctrace"), place.path("r.csv"), place.path("other-build"));
    // In a process of its own: what is open for writing here, children of other tests keep open, and nothing of that can be executed.
    let copy = ["-c", "cp \"$0\" \"$1\" && printf ' ' >> \"$1\"", env!("CARGO_BIN_EXE_pcstream"), &other];
    assert!(Command::new("sh").args(copy).status().unwrap().success());
    // Its runs are finished and kept, and then the disk is full.
    std::os::unix::fs::symlink("/dev/full", &out).unwrap();
    let words = ["sweep", &trace, "-o", &out, "--scheme", "baseline", "--gc", "own"];
    let says_of = |program: &str| {
        let ran = Command::new(program).args(words).output().unwrap();
        assert_eq!(ran.status.code(), Some(1));
        text(&ran.stderr)
    };
    let finished = "finished before: 1 run (";
    assert!(!says_of(&other).contains(finished));
    assert!(says_of(&other).contains(finished), "the same build goes on");
    assert!(!says_of(env!("CARGO_BIN_EXE_pcstream")).contains(finished));
}

/// Two traces may have the same events, of which their id is the digest.
#[test]
fn a_sweep_does_not_go_on_where_another_trace_was() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.csv"));
    std::os::unix::fs::symlink("/dev/full", &out).unwrap();
    let words = ["sweep", &trace, "-o", &out, "--scheme", "baseline", "--gc", "own"];
    let says = || ends_with(1, &words).1;
    let finished = "finished before: 1 run (";
    assert!(!says().contains(finished));
    assert!(says().contains(finished), "the same trace");
    let meta = format!("{trace}/meta.json");
    let mut text: Value = serde_json::from_str(&fs::read_to_string(&meta).unwrap()).unwrap();
    text["prefilled"] = serde_json::json!([{"lba": 0, "pages": 1}]);
    fs::write(&meta, text.to_string()).unwrap();
    assert!(!says().contains(finished), "another content of the device");
    text["checksums"] = Value::Null;
    fs::write(&meta, text.to_string()).unwrap();
    assert!(!says().contains(finished));
    assert!(says().contains(finished), "the same trace, without checksums");
}

#[test]
fn a_killed_sweep_goes_on_where_it_was() {
    let place = Place::new();
    let (trace, whole, torn) = (place.path("t.pctrace"), place.path("whole.csv"), place.path("torn.csv"));
    let journal = format!("{torn}.unfinished");
    let sweep = |out: &str, seeds: u32| -> Vec<String> {
        let seeds = format!("1..{seeds}");
        let words = ["sweep", &trace, "-o", out, "--scheme", "baseline", "--gc", "own", "--seed", &seeds];
        let flags = ["--streams", "3", "--victim", "d-choices:2", "--memory", "200M"];
        words.iter().chain(&flags).map(|word| (*word).to_owned()).collect()
    };
    // A sweep that ends before it is killed was too short.
    let mut seeds = 24;
    while !fs::exists(&journal).unwrap() || fs::read(&journal).unwrap().is_empty() {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pcstream"))
            .args(sweep(&torn, seeds))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while child.try_wait().unwrap().is_none() && !fs::metadata(&journal).is_ok_and(|file| file.len() > 0)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        seeds *= 2;
        assert!(seeds < 10_000, "sweeps are always done before they can be killed");
    }
    let seeds = seeds / 2;
    assert!(!fs::exists(&torn).unwrap(), "there is no result yet");
    let kept = fs::read_to_string(&journal).unwrap().lines().count();
    // What a kill in the middle of a write leaves behind.
    fs::write(&journal, fs::read_to_string(&journal).unwrap() + "{\"run\":\"pcstr").unwrap();
    let words = sweep(&torn, seeds);
    let (_, err) = ends_with(0, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(kept > 0 && err.contains(&format!("finished before: {kept} run")), "{kept}: {err}");
    assert!(!fs::exists(&journal).unwrap(), "the journal goes when the sweep has ended");
    let words = sweep(&whole, seeds);
    ends_with(0, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let text = fs::read_to_string(&whole).unwrap();
    assert_eq!(text.lines().count(), 1 + seeds as usize);
    assert_eq!(text, fs::read_to_string(&torn).unwrap());
}

/// Whoever puts the file of a damaged trace back gets the results of the whole one, and rows say which trace was damaged.
#[test]
fn runs_over_a_damaged_trace_say_so_and_are_not_taken_for_those_of_the_whole_one() {
    let place = Place::new();
    let (trace, out, kept) = (place.path("t.pctrace"), place.path("r.json"), place.path("kept.json"));
    // More than a piece of the table, so that what comes before the damage can be read.
    let more = ["generate", "hotcold", "--pages", "16K", "--writes", "3M", "--force", "-o", &trace];
    ends_with(0, &more);
    let events = place.path("t.pctrace/events.parquet");
    let whole = fs::read(&events).unwrap();
    let mut damaged = whole.clone();
    let at = damaged.len() * 8 / 10;
    damaged[at] ^= 1;
    let sweep = |out: &str, code| ends_with(code, &["sweep", &trace, "-o", out, "--scheme", "baseline"]).1;
    let damage = |path: &str| rows(path).iter().map(|row| row["damage"].is_string()).collect::<Vec<_>>();
    fs::write(&events, damaged).unwrap();
    sweep(&out, 3);
    assert_eq!(damage(&out), [true; 2]);
    // All of its runs are finished and kept, and then the disk is full.
    fs::remove_file(&out).unwrap();
    std::os::unix::fs::symlink("/dev/full", &out).unwrap();
    sweep(&out, 1);
    let journal = format!("{out}.unfinished");
    assert!(fs::metadata(&journal).unwrap().len() > 0);
    fs::write(&events, whole).unwrap();
    fs::rename(&journal, format!("{kept}.unfinished")).unwrap();
    assert!(!sweep(&kept, 0).contains("finished before"));
    assert_eq!(damage(&kept), [false; 2]);
}

#[test]
fn two_sweeps_do_not_write_one_output() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.csv"));
    let journal = fs::File::create(format!("{out}.unfinished")).unwrap();
    rustix::fs::flock(&journal, rustix::fs::FlockOperation::LockExclusive).unwrap();
    refuses(1, &["sweep", &trace, "-o", &out], &["another sweep writes it"]);
    drop(journal);
    ends_with(0, &["sweep", &trace, "-o", &out]);
}

#[test]
fn parquet_and_csv_hold_the_same_rows() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let (parquet, csv) = (place.path("r.parquet"), place.path("r.csv"));
    let flags = ["sweep", &trace, "--scheme", "baseline", "--utilisation", "0.9,1", "--timing"];
    for out in [&parquet, &csv] {
        ends_with(0, &[&flags[..], &["-o", out, "--capacity", "320M"]].concat());
    }
    let reader = SerializedFileReader::new(fs::File::open(&parquet).unwrap()).unwrap();
    let text = fs::read_to_string(&csv).unwrap();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut wafs = Vec::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let cells: Vec<&str> = lines.next().unwrap().split(',').collect();
        for ((name, field), (expected, cell)) in row.get_column_iter().zip(head.iter().zip(&cells)) {
            assert_eq!(name, expected);
            match field {
                Field::Str(text) => assert_eq!(text, cell, "{name}"),
                Field::ULong(number) => assert_eq!(cell.parse(), Ok(*number), "{name}"),
                Field::Double(number) => assert_eq!(cell.parse(), Ok(*number), "{name}"),
                Field::Bool(flag) => assert_eq!(cell.parse(), Ok(*flag), "{name}"),
                Field::Null => assert_eq!(*cell, "", "{name}"),
                other => panic!("{name} is {other:?}"),
            }
            if let ("waf", Field::Double(waf)) = (name.as_str(), field) {
                wafs.push(*waf);
            }
        }
    }
    assert_eq!((wafs.len(), lines.next()), (4, None));
    assert!(wafs[2] > wafs[0], "a fuller device copies more: {wafs:?}");
}

/// A destination for which there is no room is left out, named and counted; given or not, it is the same list.
#[test]
fn destinations_that_cannot_be_are_left_out() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.json"));
    ends_with(0, &["generate", "hotcold", "--pages", "4096", "--writes", "10000", "-o", &trace, "--force"]);
    let device = ["--streams", "40", "--superblock-pages", "8", "--spare-factor", ".125"];
    for list in [&[][..], &["--gc", "own,internal"]] {
        let words = [&["sweep", &trace, "-o", &out, "--scheme", "baseline"], &device[..], list].concat();
        let (_, err) = ends_with(3, &words);
        assert!(err.contains("left out: ") && err.contains("--gc internal: no room for GC"), "{err}");
        let rows = rows(&out);
        assert_eq!((rows.len(), &rows[0]["gc_destination"]), (1, &"own".into()));
    }
}

#[test]
fn devices_that_cannot_be_are_named_and_what_is_wrong_is_refused() {
    let place = Place::new();
    let (trace, out) = (place.path("t.pctrace"), place.path("r.csv"));
    let some = ["sweep", &trace, "-o", &out, "--scheme", "baseline", "--superblock-pages", "1K"];
    let (_, err) = ends_with(3, &[&some[..], &["--streams", "2,200"]].concat());
    assert!(
        err.contains("left out: --superblock-pages 1024 --streams 200") && err.contains("no room"),
        "{err}"
    );
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 3);
    refuses(2, &[&some[..], &["--streams", "200"]].concat(), &["no room for GC"]);
    refuses(2, &[&some[..], &["--set", "pcstream.mapper.newcomer_pages=1"]].concat(), &["not in this run"]);
    refuses(2, &[&some[..], &["--streams", "5..2"]].concat(), &["--streams", "FIRST..LAST"]);
    let wrong = ["--scheme", "sequential", "--set", "sequential.patterns=1,x"];
    refuses(2, &[&["sweep", &trace, "-o", &out][..], &wrong].concat(), &["patterns is 'x'"]);
    refuses(2, &["sweep", &trace, "-o", &place.path("r.txt")], &[".parquet, .csv or .json"]);
    refuses(2, &["sweep", &trace, "-o", &out, "--utilisation", "0.1"], &["more than 0.1"]);
    refuses(2, &["sweep", &trace, "-o", &out, "--overprovision", "0.07,28"], &["'28'", "as a fraction"]);
    fs::write(format!("{out}.unfinished"), "{}\n").unwrap();
    refuses(1, &["sweep", &trace, "-o", &out], &["line 1", "remove the file"]);
}

/// A trace of a device that was full before it began has another WAF for each share that is asked for, and the report says how
/// much static data is left.
#[test]
fn utilisation_is_what_it_says_on_a_device_that_was_full() {
    let place = Place::new();
    let (log, trace, out) = (place.path("log"), place.path("full.pctrace"), place.path("r.csv"));
    // A quarter of the device is written again and again, in no order.
    let mut random = 1u64;
    let line = |time: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("1,W,{},4096,{time}\n", (random >> 33) % 2048 * 4096)
    };
    let lines: String = (0..40_000).map(line).collect();
    fs::write(&log, lines).unwrap();
    ends_with(0, &["import", "--format", "alibaba", &log, "-o", &trace, "--size", "32M", "--assume-filled"]);
    let grid = ["--scheme", "baseline", "--gc", "own", "--streams", "1", "--utilisation", "0.5,0.8,1"];
    ends_with(0, &[&["sweep", &trace, "-o", &out][..], &grid].concat());
    let text = fs::read_to_string(&out).unwrap();
    let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let column = |name: &str| {
        let index = head.iter().position(|column| *column == name).unwrap();
        text.lines().skip(1).map(move |row| row.split(',').nth(index).unwrap().parse().unwrap())
    };
    assert_eq!(column("live_pages").collect::<Vec<f64>>(), [4096.0, 6554.0, 8192.0]);
    let waf: Vec<f64> = column("waf").collect();
    assert!(waf[0] < waf[1] && waf[1] < waf[2], "{waf:?}");
}
