//! Rules from RocksDB's own log: a stream for the tables of each level.
//!
//! Idea: a table's path does not tell its level, and compactions of all levels have one call path (FAST'19, section 4.1).
//! RocksDB logs both halves: `table_file_creation` names a table and the job that wrote it, `compaction_finished` the level
//! that a job wrote to. Flushes and recoveries write to level 0.
//!
//! Invariants: a table belongs to the level at which it was written; RocksDB moves it later without writing it again.
//!
//! Known weaknesses: numbers of tables are those of one database, so rules of one log say nothing of another database's
//! tables, but match them. A table whose job's end is not in the log has no level, and no rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rustc_hash::FxHashMap;
use serde::Deserialize;

/// What precedes an event in a line of the log.
const MARK: &str = "EVENT_LOG_v1 ";
/// Tables named in one line of rules.
const TABLES_A_LINE: usize = 200;
/// Stream of level 0; streams 1 and 2 are the journal's and the write-ahead log's.
const STREAM_OF_LEVEL_0: u64 = 3;

/// Tables by level, from the logs of one database.
#[derive(Debug, Default)]
pub struct RocksdbLog {
    levels: BTreeMap<u64, BTreeSet<u64>>,
    without_level: u64,
    unreadable_events: u64,
}

/// The parts of an event that tell a level.
#[derive(Deserialize)]
struct Event {
    event: String,
    job: Option<u64>,
    file_number: Option<u64>,
    output_level: Option<u64>,
}

impl RocksdbLog {
    /// Takes the lines of one log: `LOG`, or one `LOG.old.*`. Each is of one opening of the database, which counts its jobs
    /// from 1.
    pub fn read<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        let mut jobs: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
        for text in lines.into_iter().filter_map(|line| Some(line.split_once(MARK)?.1)) {
            let Ok(event) = serde_json::from_str::<Event>(text) else {
                self.unreadable_events += 1;
                continue;
            };
            let Some(job) = event.job else { continue };
            let level = match event.event.as_str() {
                "table_file_creation" => {
                    jobs.entry(job).or_default().extend(event.file_number);
                    continue;
                }
                "flush_finished" | "recovery_finished" => Some(0),
                "compaction_finished" => event.output_level,
                _ => None,
            };
            if let Some(level) = level {
                self.levels.entry(level).or_default().extend(jobs.remove(&job).unwrap_or_default());
            }
        }
        self.without_level += jobs.into_values().map(|tables| tables.len() as u64).sum::<u64>();
    }

    /// Levels, and how many tables were written to each.
    pub fn levels(&self) -> impl Iterator<Item = (u64, usize)> {
        self.levels
            .iter()
            .filter(|(_, tables)| !tables.is_empty())
            .map(|(level, tables)| (*level, tables.len()))
    }

    /// Tables whose job has no end in the log.
    pub fn without_level(&self) -> u64 {
        self.without_level
    }

    /// Events that are no JSON, such as a last line that is cut.
    pub fn unreadable_events(&self) -> u64 {
        self.unreadable_events
    }

    /// The rules: the journal, the write-ahead log, and the tables of each level.
    pub fn rules(&self) -> String {
        let mut text = String::from("# Tables by the level at which RocksDB wrote them, from its LOG.\n");
        text += "kind=journal -> 1\nname=*.log -> 2\n";
        for (level, tables) in &self.levels {
            let stream = level.saturating_add(STREAM_OF_LEVEL_0).min(u64::from(u8::MAX));
            let tables: Vec<&u64> = tables.iter().collect();
            for some in tables.chunks(TABLES_A_LINE) {
                let names: Vec<String> = some.iter().map(|number| format!("{number:06}")).collect();
                let _ = writeln!(text, "name={{{}}}.sst -> {stream}", names.join(","));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::RocksdbLog;
    use crate::Rules;

    /// Lines of RocksDB 7.8, cut to what tells a level.
    const LOG: &str = r#"2026/11/25-00:42:09.531415 7152 EVENT_LOG_v1 {"time_micros": 1, "job": 2, "event": "flush_started", "num_memtables": 1}
2026/11/25-00:42:09.538409 7152 EVENT_LOG_v1 {"cf_name": "default", "job": 2, "event": "table_file_creation", "file_number": 9, "file_size": 418874}
2026/11/25-00:42:09.538972 7152 (Original Log Time 2026/11/25-00:42:09.538907) EVENT_LOG_v1 {"job": 2, "event": "flush_finished", "lsm_state": [1, 0]}
2026/11/25-00:42:09.560849 7151 EVENT_LOG_v1 {"job": 5, "event": "compaction_started", "files_L0": [9]}
2026/11/25-00:42:09.57 7151 EVENT_LOG_v1 {"job": 5, "event": "table_file_creation", "file_number": 14}
2026/11/25-00:42:09.57 7151 EVENT_LOG_v1 {"job": 5, "event": "table_file_creation", "file_number": 1234567}
2026/11/25-00:42:09.586216 7151 EVENT_LOG_v1 {"job": 5, "event": "compaction_finished", "output_level": 1}
2026/11/25-00:42:09.587668 7151 [default] Moving #14 to level-2 123936 bytes
2026/11/25-00:42:09.59 7151 EVENT_LOG_v1 {"job": 6, "event": "table_file_creation", "file_number": 20}
2026/11/25-00:42:09.59 7151 EVENT_LOG_v1 {"job": 6, "event": "compaction_fin"#;

    fn read(logs: &[&str]) -> RocksdbLog {
        let mut read = RocksdbLog::default();
        logs.iter().for_each(|log| read.read(log.lines()));
        read
    }

    #[test]
    fn a_table_belongs_to_the_level_at_which_it_was_written() {
        let log = read(&[LOG]);
        assert_eq!(log.levels().collect::<Vec<_>>(), [(0, 1), (1, 2)]);
        assert_eq!((log.without_level(), log.unreadable_events()), (1, 1));
        let text = log.rules();
        assert!(text.contains("name={000009}.sst -> 3\nname={000014,1234567}.sst -> 4\n"), "{text}");
        Rules::parse(&text).expect("they are rules");
    }

    /// Each opening of a database counts its jobs from 1.
    #[test]
    fn jobs_of_several_logs_are_kept_apart() {
        let created = |number| {
            format!(
                "EVENT_LOG_v1 {{\"job\": 3, \"event\": \"table_file_creation\", \"file_number\": {number}}}"
            )
        };
        let finished = "EVENT_LOG_v1 {\"job\": 3, \"event\": \"compaction_finished\", \"output_level\": 2}";
        let (first, second) = (created(7), format!("{}\n{finished}", created(8)));
        let log = read(&[&first, &second]);
        assert_eq!(log.levels().collect::<Vec<_>>(), [(2, 1)]);
        assert_eq!(log.without_level(), 1);
    }

    #[test]
    fn many_tables_take_several_lines() {
        let mut text = String::new();
        (0..450).for_each(|number| {
            text += &format!(
                "EVENT_LOG_v1 {{\"job\": 1, \"event\": \"table_file_creation\", \"file_number\": {number}}}\n"
            );
        });
        text += "EVENT_LOG_v1 {\"job\": 1, \"event\": \"recovery_finished\"}\n";
        let log = read(&[&text]);
        let rules = Rules::parse(&log.rules()).expect("they are rules");
        assert_eq!(rules.rules().len(), 2 + 3);
        assert!(read(&["no events\n"]).levels().next().is_none());
    }
}
