//! manual: streams by rules that a person has chosen (ManualStream; the multi-streamed SSD,
//! HotStorage'14).
//!
//! The first rule that matches a write decides; what no rule matches goes to S0. See
//! [`crate::rules`] for the rules and their presets.
//!
//! A rule for a stream that the device does not have goes to its last stream. Rules list
//! short-lived data first, so this folds the long-lived classes together, which is what a person
//! short of streams would do, and one set of rules can be swept over devices. The fact
//! `folded_rules` says how many rules were changed so. Rules that are no preset get remarks: which were folded,
//! which decided for no page, and that there is none at all. A preset is for many programs, so it gets one only if none of its
//! rules decided for a page, and the trace has contexts or files that others could decide by.
//!
//! Cost: a write is matched once per (context, file, kind, range of sizes) that rules can tell apart; then it is a
//! lookup. Rules about sizes keep 8 bytes for each file.

use pcstream_trace::{ById, ContextId, Event, FileId, Kind, PAGE_BYTES, Tables};
use rustc_hash::FxHashMap;

use crate::error::SchemeError;
use crate::parameter::{Environment, Parameter, Parameters};
use crate::rules::{Rule, Rules, Subject};
use crate::scheme::{Placement, Scheme, SchemeFact, Stream};

/// Parameters of `manual`.
#[derive(Clone, Debug)]
pub struct ManualParams {
    /// The rules; the preset `common` by default.
    pub rules: Rules,
    /// What they are called: a preset, or a file.
    pub name: String,
}

impl Default for ManualParams {
    fn default() -> Self {
        ManualParams { rules: Rules::default(), name: "common".to_owned() }
    }
}

impl Parameters for ManualParams {
    const LIST: &'static [Parameter<ManualParams>] = &[Parameter {
        name: "rules",
        unit: "preset",
        about: "the rules; --rules takes files, too",
        source: "this project",
        get: |params| params.name.clone(),
        set: |params, text| {
            params.rules = Rules::preset(text).map_err(|_| {
                let names: Vec<&str> = Rules::presets().map(|(name, _)| name).collect();
                format!("one of {}", names.join(", "))
            })?;
            params.name = text.to_owned();
            Ok(())
        },
    }];

    fn build(&self, _: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(Manual::new(environment, self.clone())))
    }
}

/// With the number of steps that the file's size has passed.
type Key = (ContextId, FileId, Kind, usize);

/// Lines named in remarks of one sort.
const NAMED: usize = 5;
/// Characters shown of a rule's conditions.
const SHOWN: usize = 60;

/// What is said of a preset that knows nothing of the trace.
const NOTHING_MATCHED: &str = "manual: no rule of the preset matched a write, so all went to S0, as with baseline; rules of your own can tell these writers apart";

/// What is said of a rule with such a condition.
const BEGINS_INSIDE: &str = ": path and executable begin with /, so write **/ before the value";

/// What is said of rules of one's own that have none.
const NO_RULE: &str = "no line holds a rule, so all goes to S0, as with baseline";

/// The manual scheme.
pub struct Manual {
    rules: Rules,
    last_stream: u8,
    by_file: bool,
    by_context: bool,
    /// Sizes at which rules change; none: no rule is about sizes.
    size_steps: Vec<u64>,
    /// Bytes that each file has grown to, by its id.
    sizes: ById<u64>,
    /// The rule that decides, by index; that behind the last for none.
    known: FxHashMap<Key, usize>,
    /// The previous write's key and rule: runs of equal writers are common.
    previous: Option<(Key, usize)>,
    /// Pages that each rule decided for, then those that no rule matched.
    pages: Vec<u64>,
    /// Whether a write had a context or a file.
    named: bool,
}

impl Manual {
    /// Makes the scheme.
    pub fn new(environment: &Environment, params: ManualParams) -> Manual {
        let rules = params.rules;
        Manual {
            last_stream: environment.streams() - 1,
            by_file: rules.look_at_file(),
            by_context: rules.look_at_context(),
            size_steps: rules.size_steps(),
            sizes: ById::default(),
            known: FxHashMap::default(),
            previous: None,
            pages: vec![0; rules.rules().len() + 1],
            named: false,
            rules,
        }
    }

    /// Bytes that the event's file has grown to; `None` if no rule asks, or the file is not known.
    fn grow(&mut self, event: &Event) -> Option<u64> {
        if self.size_steps.is_empty() || !event.file.is_some() {
            return None;
        }
        let end = event.file_page.saturating_add(u64::from(event.pages)).saturating_mul(PAGE_BYTES);
        let size = self.sizes.at(event.file.0 as usize);
        *size = end.max(*size);
        Some(*size)
    }

    /// Index of the rule that decides; that behind the last if there is none.
    fn rule_of(&mut self, key: Key, event: &Event, tables: &Tables, size: Option<u64>) -> usize {
        if let Some((previous, rule)) = self.previous
            && previous == key
        {
            return rule;
        }
        let rule = *self.known.entry(key).or_insert_with(|| {
            let (file, context) = (tables.file(event.file), tables.context(event.context));
            let found = self.rules.first_match(Subject { kind: event.kind, file, context, size });
            found.unwrap_or(self.rules.rules().len())
        });
        self.previous = Some((key, rule));
        rule
    }

    /// Where the writes go that a rule decides for.
    fn stream(&self, rule: usize) -> Stream {
        Stream(self.rules.rules().get(rule).map_or(0, |rule| rule.stream.min(self.last_stream)))
    }

    fn folded(&self) -> impl Iterator<Item = &Rule> {
        self.rules.rules().iter().filter(|rule| rule.stream > self.last_stream)
    }

    /// Whether there are rules and pages that rules can know, and no rule decided for a page.
    fn matched_nothing(&self) -> bool {
        self.named
            && self.pages.len() > 1
            && self.pages.iter().position(|&pages| pages > 0) == Some(self.pages.len() - 1)
    }

    fn unused(&self) -> impl Iterator<Item = &Rule> {
        self.rules.rules().iter().zip(&self.pages).filter(|(_, pages)| **pages == 0).map(|(rule, _)| rule)
    }
}

/// Whether a condition is about a path, but has only its end. Blanks within values may hide that.
fn begins_inside(conditions: &str) -> bool {
    let mut values = conditions
        .split(' ')
        .filter_map(|condition| condition.strip_prefix("path=").or(condition.strip_prefix("executable=")));
    values.any(|value| !value.starts_with(['/', '*']))
}

/// A few of the rules as `describe` says, and how many more there are.
fn some<'a>(
    mut rules: impl Iterator<Item = &'a Rule>,
    describe: impl Fn(&Rule) -> String,
    more: impl Fn(usize) -> String,
) -> Vec<String> {
    let mut remarks: Vec<String> = rules.by_ref().take(NAMED).map(describe).collect();
    remarks.extend(Some(rules.count()).filter(|&left| left > 0).map(more));
    remarks
}

impl Scheme for Manual {
    fn place(&mut self, event: &Event, _: u64, tables: &Tables, out: &mut Vec<Placement>) {
        // What no rule looks at must not multiply the cache.
        let context = if self.by_context { event.context } else { ContextId::NONE };
        let file = if self.by_file { event.file } else { FileId::NONE };
        let size = self.grow(event);
        let passed = self.size_steps.partition_point(|&step| size.is_some_and(|size| step <= size));
        let rule = self.rule_of((context, file, event.kind, passed), event, tables, size);
        self.pages[rule] += u64::from(event.pages);
        self.named |= event.context.is_some() || event.file.is_some();
        out.push(Placement { pages: event.pages, stream: self.stream(rule) });
    }

    fn facts(&self) -> Vec<SchemeFact> {
        let off_default = (0..self.pages.len()).filter(|&rule| self.stream(rule) != Stream::DEFAULT);
        vec![
            ("rules", self.rules.rules().len() as u64),
            ("folded_rules", self.folded().count() as u64),
            ("pages_off_default", off_default.map(|rule| self.pages[rule]).sum()),
        ]
    }

    fn remarks(&self) -> Vec<String> {
        if self.rules.is_preset() {
            return self.matched_nothing().then(|| NOTHING_MATCHED.to_owned()).into_iter().collect();
        }
        let last = self.last_stream;
        if self.rules.rules().is_empty() {
            return vec![NO_RULE.to_owned()];
        }
        let folded = |rule: &Rule| {
            let Rule { line, stream, .. } = rule;
            format!("line {line}: the device has no stream {stream}; the writes go to its last, S{last}")
        };
        let unused = |rule: &Rule| {
            let mut conditions: String = rule.conditions.chars().take(SHOWN).collect();
            conditions += if conditions.len() < rule.conditions.len() { "..." } else { "" };
            let hint = if begins_inside(&rule.conditions) { BEGINS_INSIDE } else { "" };
            format!("line {} ({conditions}) matched nothing{hint}", rule.line)
        };
        let mut remarks = some(self.unused(), unused, |more| format!("{more} more lines matched nothing"));
        remarks.extend(some(self.folded(), folded, |more| {
            format!("{more} more lines name streams that the device does not have")
        }));
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, tables, write};

    fn scheme(streams: u8, rules: &str) -> Manual {
        let rules = Rules::parse(rules).expect("valid");
        let environment = device(streams);
        Manual::new(&environment, ManualParams { rules, ..ManualParams::default() })
    }

    fn stream(scheme: &mut Manual, tables: &Tables, event: Event) -> u8 {
        let mut out = Vec::new();
        scheme.place(&event, 0, tables, &mut out);
        assert_eq!((out.len(), out[0].pages), (1, event.pages));
        out[0].stream.0
    }

    #[test]
    fn every_write_is_matched_by_what_the_rules_look_at() {
        let tables = tables(&[("/bin/a", "one"), ("/bin/a", "two")], &["/x.log", "/x.sst"]);
        let mut scheme = scheme(9, "kind=journal -> 1\nname=*.log -> 2\ncomm=two -> 3\n");
        let event = |context, file, kind| Event {
            context: ContextId(context),
            file: FileId(file),
            kind,
            ..write(0, 3)
        };
        for _ in 0..2 {
            assert_eq!(stream(&mut scheme, &tables, event(0, 0, Kind::Journal)), 1);
            assert_eq!(stream(&mut scheme, &tables, event(2, 1, Kind::Data)), 2);
            assert_eq!(stream(&mut scheme, &tables, event(2, 2, Kind::Data)), 3);
            assert_eq!(stream(&mut scheme, &tables, event(1, 2, Kind::Data)), 0);
            assert_eq!(stream(&mut scheme, &tables, event(0, 0, Kind::Data)), 0);
        }
        assert_eq!(scheme.facts(), [("rules", 3), ("folded_rules", 0), ("pages_off_default", 18)]);
    }

    #[test]
    fn a_file_goes_by_the_size_that_it_has_grown_to() {
        let tables = tables(&[], &["/a", "/b"]);
        let mut scheme = scheme(9, "size=..64K -> 1\nsize=64K..128K -> 2\nsize=128K.. -> 3");
        let mut at = |file, file_page, pages| {
            let event = Event { file: FileId(file), file_page, ..write(0, pages) };
            stream(&mut scheme, &tables, event)
        };
        assert_eq!([at(1, 0, 15), at(1, 15, 1), at(1, 16, 15), at(1, 31, 1)], [1, 2, 2, 3]);
        assert_eq!(at(1, 0, 1), 3, "a file that was large is large");
        assert_eq!(
            [at(2, 0, 1), at(2, 40, 1), at(0, 0, 1)],
            [1, 3, 0],
            "each has its own, and none is unknown"
        );
        assert_eq!(at(1, u64::MAX, 1), 3);
    }

    #[test]
    fn a_size_from_0_on_is_that_of_every_file() {
        let tables = tables(&[], &["/a"]);
        for every in ["0..", "0..1M", "..1M", "1.."] {
            let mut scheme = scheme(9, &format!("size={every} -> 1"));
            let mut at = |file| stream(&mut scheme, &tables, Event { file: FileId(file), ..write(0, 1) });
            assert_eq!([at(1), at(0)], [1, 0], "{every}");
            assert_eq!(scheme.remarks(), [""; 0], "{every}");
        }
    }

    #[test]
    fn streams_the_device_lacks_fold_into_its_last() {
        let tables = Tables::default();
        let rules = "kind=journal -> 1\nkind=inode -> 2\nkind=bitmap -> 7\n* -> 0";
        let mut three = scheme(3, rules);
        let mut of = |kind| stream(&mut three, &tables, Event { kind, ..write(0, 1) });
        assert_eq!([of(Kind::Journal), of(Kind::Inode), of(Kind::Bitmap), of(Kind::Data)], [1, 2, 2, 0]);
        assert_eq!(three.facts()[1], ("folded_rules", 1));
        let mut one = scheme(1, rules);
        assert_eq!(stream(&mut one, &tables, Event { kind: Kind::Bitmap, ..write(0, 1) }), 0);
    }

    #[test]
    fn rules_that_ignore_files_do_not_keep_them() {
        let mut scheme = scheme(9, "kind=journal -> 1");
        for file in 1..100 {
            stream(&mut scheme, &Tables::default(), Event { file: FileId(file), ..write(0, 1) });
        }
        assert_eq!(scheme.known.len(), 1);
    }

    #[test]
    fn rules_that_do_nothing_are_remarked_but_not_of_a_preset() {
        let tables = tables(&[("/bin/a", "one")], &["/x.log"]);
        let event = Event { context: ContextId(1), file: FileId(1), ..write(0, 3) };
        let mut scheme = scheme(3, "# mine\nname=*.log -> 7\nname=\"a b\" comm=one -> 1\n\nname=*.log -> 2");
        stream(&mut scheme, &tables, event);
        let remarks = scheme.remarks();
        let expected = [
            "line 3 (name=a b comm=one) matched nothing",
            "line 5 (name=*.log) matched nothing",
            "line 2: the device has no stream 7; the writes go to its last, S2",
        ];
        assert_eq!(remarks, expected);
        let mut preset = Manual::new(&device(3), ManualParams::default());
        stream(&mut preset, &tables, event);
        assert!(preset.remarks().is_empty());
    }

    #[test]
    fn rules_that_lack_the_beginning_of_a_path_are_remarked() {
        let tables = tables(&[("/usr/bin/db", "one")], &["/db/log"]);
        let event = Event { context: ContextId(1), file: FileId(1), ..write(0, 3) };
        let remarks = |rules: &str| {
            let mut scheme = scheme(3, rules);
            let stream = stream(&mut scheme, &tables, event);
            (stream, scheme.remarks())
        };
        for rule in ["executable=db", "path=db/*", "kind=data path=db/log"] {
            let remark = format!("line 1 ({rule}) matched nothing{BEGINS_INSIDE}");
            assert_eq!(remarks(&format!("{rule} -> 1")), (0, vec![remark]));
        }
        for as_it_says in ["executable=**/db", "path=**/db/*", "kind=data path=**/db/log"] {
            assert_eq!(remarks(&format!("{as_it_says} -> 1")), (1, Vec::new()));
        }
        assert_eq!(remarks("executable=/db -> 1").1, ["line 1 (executable=/db) matched nothing"]);
    }

    #[test]
    fn rules_without_a_rule_are_remarked() {
        for none in ["", "# name=*.log -> 1\n\n"] {
            assert_eq!(scheme(3, none).remarks(), [NO_RULE]);
        }
    }

    #[test]
    fn a_preset_that_matches_nothing_is_remarked_once() {
        let tables = tables(&[("/bin/a", "one")], &["/x"]);
        let event = Event { context: ContextId(1), file: FileId(1), ..write(0, 3) };
        let remarks = |preset: &str, events: &[Event]| {
            let rules = Rules::preset(preset).expect(preset);
            let mut scheme = Manual::new(&device(3), ManualParams { rules, name: preset.to_owned() });
            events.iter().for_each(|&event| _ = stream(&mut scheme, &tables, event));
            scheme.remarks()
        };
        assert_eq!(remarks("common", &[event, event]), [NOTHING_MATCHED]);
        assert_eq!(remarks("common", &[event, Event { kind: Kind::Journal, ..event }]), [""; 0]);
        assert_eq!(remarks("common", &[]), [""; 0], "there was nothing to match");
        let nameless = Event { context: ContextId::NONE, file: FileId::NONE, ..event };
        assert_eq!(remarks("common", &[nameless]), [""; 0], "no rule could match");
        assert_eq!(remarks("cassandra-normal", &[event]), [""; 0], "it has no rules on purpose");
    }
}
