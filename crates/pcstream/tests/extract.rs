//! `extract` as scripts see it: what some files and programs wrote.

mod common;

use std::fs;

use common::{Place, ends_with, json, refuses};
use serde_json::{Value, json};

const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mixed.pctrace");
const TABLES: [&str; 2] = ["--file", "*.sst"];

fn meta(trace: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(format!("{trace}/meta.json")).unwrap()).unwrap()
}

fn contexts(trace: &str, flags: &[&str]) -> Value {
    json(&[["contexts", trace, "--json", "-"].as_slice(), flags].concat())
}

fn extract(place: &Place, flags: &[&str]) -> (String, String) {
    let part = place.path("part.pctrace");
    let (out, remark) = ends_with(0, &[&["extract", MIXED, "--force", "-o", &part], flags].concat());
    assert!(out.is_empty(), "{out}");
    (part, remark)
}

#[test]
fn a_part_has_what_the_same_patterns_select() {
    let place = Place::new();
    let (part, remark) = extract(&place, &TABLES);
    let selected = contexts(MIXED, &TABLES);
    let totals = &meta(&part)["totals"];
    let left_out = selected["selection"]["left_out_pages"].as_u64().unwrap();
    let all = meta(MIXED)["totals"]["host_pages"].as_u64().unwrap();
    assert_eq!(totals["host_pages"].as_u64().unwrap(), all - left_out, "{remark}");
    assert_eq!(totals["contexts"], selected["contexts"].as_array().unwrap().len(), "{remark}");
    let files = contexts(&part, &["--by", "file"]);
    let names = files["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap());
    assert!(names.clone().count() > 100 && names.clone().all(|name| name.ends_with(".sst")));
    assert_eq!(meta(&part)["settings"]["extracted"]["file"], json!(["*.sst"]));
    assert_eq!(meta(&part)["settings"]["extracted"]["program"], json!([]));
    let again = place.path("again.pctrace");
    ends_with(0, &["extract", &part, "--file", "*2.sst", "-o", &again]);
    assert_eq!(meta(&again)["settings"]["extracted"]["extracted"]["file"], json!(["*.sst"]));

    // Alone, such data has a lifetime of its own, and can be put on a drive that it fills.
    let of_part = contexts(&part, &[]);
    assert!(of_part["contexts"].as_array().unwrap().iter().any(|row| !row["lifetime_pages"].is_null()));
    let packed = json(&["simulate", &part, "--scheme", "baseline", "--pack-live", "0.9", "--json", "-"]);
    assert!(packed["results"][0]["waf"].as_f64().unwrap() >= 1.0);
}

#[test]
fn a_page_is_taken_if_it_matches_one_pattern_of_each_kind() {
    let place = Place::new();
    let pages = |flags: &[&str]| meta(&extract(&place, flags).0)["totals"]["data_pages"].as_u64().unwrap();
    let (tables, logs) = (pages(&TABLES), pages(&["--file", "*.log"]));
    assert!(tables > 0 && logs > 0);
    let both = [TABLES.as_slice(), &["--file", "*.log"]].concat();
    assert_eq!(pages(&both), tables + logs);
    let (part, _) = extract(&place, &[both.as_slice(), &["--file", "*.sst", "--program", "*"]].concat());
    assert_eq!(meta(&part)["totals"]["data_pages"], tables + logs, "no page is taken twice");
    let extracted = &meta(&part)["settings"]["extracted"];
    assert_eq!(extracted["file"], json!(["*.sst", "*.log", "*.sst"]));
    assert_eq!(extracted["program"], json!(["*"]));
    let (_, said) = extract(
        &place,
        &[both.as_slice(), &["--file", "*.none", "--program", "nobody", "--program", "*"]].concat(),
    );
    for remark in ["--file *.none: matched nothing", "--program nobody: matched nothing"] {
        assert_eq!(said.matches(remark).count(), 1, "{said}");
    }
    assert_eq!(said.matches("matched nothing").count(), 2, "{said}");
    let programs = contexts(MIXED, &["--by", "program"]);
    let names = programs["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap());
    let names: Vec<&str> = names.filter(|name| !name.starts_with('(')).collect();
    let of = |names: &[&str]| -> Vec<String> {
        names
            .iter()
            .flat_map(|name| ["--program".to_owned(), name.rsplit('/').next().unwrap().to_owned()])
            .collect()
    };
    let of = |names: &[&str]| pages(&of(names).iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(of(&names[..2]), of(&names[..1]) + of(&names[1..2]), "{names:?}");
}

#[test]
fn metadata_comes_along_if_asked() {
    let place = Place::new();
    let (part, remark) = extract(&place, &TABLES);
    let without = meta(&part)["totals"].clone();
    assert!(remark.contains("of metadata and journal (--metadata keeps them)"), "{remark}");
    let (part, remark) = extract(&place, &[&TABLES, ["--metadata"].as_slice()].concat());
    assert!(!remark.contains("metadata"), "{remark}");
    let with = &meta(&part)["totals"];
    let all = &meta(MIXED)["totals"];
    let metadata =
        |totals: &Value| totals["host_pages"].as_u64().unwrap() - totals["data_pages"].as_u64().unwrap();
    assert_eq!((metadata(&without), metadata(with)), (0, metadata(all)));
    assert_eq!(without["data_pages"], with["data_pages"]);
}

#[test]
fn what_cannot_be_extracted_is_refused() {
    let place = Place::new();
    let part = place.path("part.pctrace");
    refuses(2, &["extract", MIXED, "-o", &part], &["--file", "--program"]);
    refuses(2, &["extract", MIXED, "-o", MIXED, "--force", "--file", "*"], &["which is to be read"]);
    refuses(
        1,
        &["extract", MIXED, "-o", &part, "--file", "*.none"],
        &["no file of the trace matches", "--by file"],
    );
    let star = ["extract", MIXED, "-o", &part, "--file", "*/none"];
    refuses(
        1,
        &star,
        &["no file of the trace matches --file; a * matches no /: write ** for directories; expected"],
    );
    refuses(1, &["extract", MIXED, "-o", &part, "--program", "none"], &["no program of the trace matches"]);
    let metadata = ["extract", MIXED, "-o", &part, "--file", "*.none", "--metadata"];
    refuses(1, &metadata, &["no file of the trace matches"]);
    assert!(!fs::exists(&part).unwrap(), "nothing unfinished stays");
}
