//! The probes of rules in a binary: where its functions, variables and static probes are.
//!
//! Units: virtual addresses of the file inside, file offsets in what comes out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::{Object, ObjectSymbol, ReadRef, SymbolKind};

use super::code::Text;
use super::counted::{self, Argument, Number, Place};
use super::rules::{Counter, Rule, Rules};
use super::static_probes::{self, StaticProbe};
use super::{Probe, Program, open_file, register};
use crate::modules::module_data::{Elf, ModuleData};
use crate::modules::reading_limits::Allowance;
use crate::modules::segments::Segments;
use crate::symbols::debug_files::debug_file;
use crate::wire::{BufferKind, BufferRule};

/// `endbr64`: marks where indirect branches may lead. A probe on it costs the kernel a single step of ten microseconds.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// The provider of `pcstream.h`.
const PROVIDER: &str = "pcstream";

/// An ELF file.
pub struct Binary {
    /// For messages.
    path: PathBuf,
    /// Without links: where debug files, which have the names that were stripped, may lie beside it.
    real: PathBuf,
    file: Arc<File>,
}

/// A binary, and its debug file.
struct Parsed<'a> {
    data: &'a ModuleData<'a>,
    binary: Elf<'a>,
    segments: Segments,
    debug: Option<Elf<'a>>,
}

impl Parsed<'_> {
    /// The address of a symbol.
    fn symbol(&self, name: &str, kind: SymbolKind) -> Option<u64> {
        let stripped = self.debug.iter().flat_map(|debug| debug.symbols());
        let mut all = self.binary.symbols().chain(self.binary.dynamic_symbols()).chain(stripped);
        all.find(|symbol| symbol.is_definition() && symbol.kind() == kind && symbol.name() == Ok(name))
            .map(|symbol| symbol.address())
    }

    /// Where the file has what is loaded to an address.
    fn in_file(&self, address: u64, name: &str) -> Result<u64, String> {
        let offset = self.segments.offset_of(address);
        offset.ok_or_else(|| format!("has {name} at {address:#x}, outside of what is loaded"))
    }

    /// The first instruction of a function that does something.
    fn after_endbr(&self, address: u64) -> u64 {
        let first = self.segments.offset_of(address).and_then(|at| self.data.read_bytes_at(at, 4).ok());
        if first == Some(&ENDBR64) { address.saturating_add(4) } else { address }
    }
}

impl Binary {
    /// Opens a binary.
    pub fn open(path: &Path) -> Result<Binary, String> {
        let file = open_file(path).map_err(|error| format!("cannot be read: {error}"))?;
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(Binary { path: path.to_owned(), real, file: Arc::new(file) })
    }

    /// A program that runs.
    pub fn of(program: &Program) -> Binary {
        let Program { name, file } = program;
        Binary { path: name.clone(), real: name.clone(), file: file.clone() }
    }

    /// What messages call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A probe for each rule.
    pub fn probes(&self, rules: &Rules) -> Result<Vec<Probe>, String> {
        self.with_parsed(|parsed| {
            let each = |list: &[Rule], kind| -> Result<Vec<Vec<Probe>>, String> {
                list.iter().map(|rule| self.probes_of(parsed, rule, kind, rules.page_bytes)).collect()
            };
            let mut probes = each(&rules.dirty, BufferKind::BUFFER_DIRTY)?;
            if probes.iter().all(Vec::is_empty) {
                return Err(format!("has none of the functions of [[dirty]]: {}", names(&rules.dirty)));
            }
            probes.extend(each(&rules.copied, BufferKind::BUFFER_COPIED)?);
            Ok(probes.into_iter().flatten().collect())
        })
    }

    /// The probes that `pcstream.h` put there.
    pub fn own_probes(&self) -> Result<Vec<Probe>, String> {
        self.with_parsed(|parsed| {
            let own =
                static_probes::read(&parsed.binary)?.into_iter().filter(|probe| probe.provider == PROVIDER);
            let probes: Result<Vec<_>, String> = own.map(|probe| self.own_probe(parsed, &probe)).collect();
            let probes = probes?;
            if probes.is_empty() {
                return Err(
                    "has no probes of pcstream.h: build it with that header, or give a rules file".into()
                );
            }
            Ok(probes)
        })
    }

    fn own_probe(&self, parsed: &Parsed<'_>, probe: &StaticProbe) -> Result<Probe, String> {
        let (kind, page_bytes_argument) = match probe.name.as_str() {
            "page_dirty" => (BufferKind::BUFFER_DIRTY, probe.register_of(2)?),
            "page_copied" => (BufferKind::BUFFER_COPIED, 0),
            // Its descriptor and its result are where the header puts them.
            "stream" => (BufferKind::BUFFER_STREAM, probe.register_of(2)?),
            other => {
                return Err(format!(
                    "has a probe {PROVIDER}:{other}, of a newer pcstream.h than this program knows"
                ));
            }
        };
        let rule = BufferRule {
            kind: kind.0,
            rank: 2,
            argument: probe.register_of(1)?,
            page_bytes_argument,
            // The call before a write is the one that counts.
            was_clean: (kind == BufferKind::BUFFER_STREAM).into(),
            ..BufferRule::default()
        };
        let name = format!("{PROVIDER}:{}", probe.name);
        let listeners = match probe.listeners {
            0 => 0,
            address => parsed.in_file(address, &format!("the listeners of {name}"))?,
        };
        Ok(Probe { listeners, ..self.probe(parsed, probe.address, &name, rule)? })
    }

    fn with_parsed<T>(&self, work: impl FnOnce(&Parsed<'_>) -> Result<T, String>) -> Result<T, String> {
        let allowance = Allowance::default();
        let data = ModuleData::of_program(&self.file, &allowance);
        let binary = Elf::parse(&data).map_err(|error| format!("is not a program or library: {error}"))?;
        if binary.architecture() != object::Architecture::X86_64 {
            return Err(format!("is a program for {:?}, not x86-64", binary.architecture()));
        }
        let debug_file = debug_file(&self.file, &binary, &self.real);
        let debug_data = debug_file.as_ref().map(|file| ModuleData::of_program(file, &allowance));
        let debug = debug_data.as_ref().and_then(|data| Elf::parse(data).ok());
        let segments = Segments::of(&binary);
        // What could not be read for its size looks missing.
        work(&Parsed { data: &data, binary, segments, debug }).map_err(|error| match allowance.fell_short() {
            true => format!("is larger than pcstream reads of a program, so it seems that it {error}"),
            false => error,
        })
    }

    fn probes_of(
        &self,
        parsed: &Parsed<'_>,
        rule: &Rule,
        kind: BufferKind,
        page_bytes: u32,
    ) -> Result<Vec<Probe>, String> {
        let mut compiled = rule.compile(kind, page_bytes);
        let (mut places, mut remark) = (Vec::new(), None);
        if let Some(name) = &rule.function {
            if let Some(address) = parsed.symbol(name, SymbolKind::Text) {
                (places, remark) = self.in_function(parsed, rule, address, compiled);
            }
        } else if let Some(name) = &rule.probe {
            for probe in static_probes::read(&parsed.binary)?
                .iter()
                .filter(|p| format!("{}:{}", p.provider, p.name) == *name)
            {
                compiled.argument =
                    probe.register_of(rule.page.number.or(rule.page.address).unwrap_or_default())?;
                places.push((probe.address, compiled));
            }
        }
        if places.is_empty() && !rule.optional {
            let (what, why) = match rule.function {
                Some(_) => {
                    ("function", "or stripped of its symbols? Packages of debug symbols (-dbgsym) have them")
                }
                None => ("static probe", "or built without it?"),
            };
            return Err(format!("has no {what} {}: another version, {why}", rule.name()));
        }
        let pool = match &rule.page.pool {
            Some(name) => Some(parsed.symbol(name, SymbolKind::Data).ok_or_else(|| {
                format!("has no variable {name}: another version, or stripped of its symbols?")
            })?),
            None => None,
        };
        let place = |(address, mut compiled): (u64, BufferRule)| {
            compiled.variable = pool.map_or(0, |pool| pool.wrapping_sub(address).cast_signed());
            let probe = self.probe(parsed, address, rule.name(), compiled)?;
            Ok(Probe { remark: remark.clone(), ..probe })
        };
        places.into_iter().map(place).collect()
    }

    /// Where to probe a function, and the rule there; and why that is its beginning, if it should be where it counts.
    fn in_function(
        &self,
        parsed: &Parsed<'_>,
        rule: &Rule,
        address: u64,
        compiled: BufferRule,
    ) -> (Vec<(u64, BufferRule)>, Option<String>) {
        let start = || vec![(parsed.after_endbr(address), compiled)];
        let Some(counter) = &rule.counts else { return (start(), None) };
        match self.counting(parsed, rule, address, counter) {
            Ok(places) => {
                let at = |place: Place| Some((place.address, rule_at(place, compiled)?));
                (places.into_iter().filter_map(at).collect(), None)
            }
            Err(reason) => {
                let (name, variable, at) = (rule.name(), &counter.variable, counter.at);
                let binary = self.path.display();
                let remark = format!(
                    "{binary}: every call of {name} is looked at, not only those for clean pages, which costs more: where \
                     it counts those ({variable}, byte {at}) cannot be found, because it {reason}"
                );
                (start(), Some(remark))
            }
        }
    }

    fn counting(
        &self,
        parsed: &Parsed<'_>,
        rule: &Rule,
        address: u64,
        counter: &Counter,
    ) -> Result<Vec<Place>, String> {
        let variable = parsed.symbol(&counter.variable, SymbolKind::Data).ok_or("has no such variable")?;
        let text =
            Text::read(&self.file, &parsed.binary).ok_or("has no call-frame entries that can be read")?;
        let number = rule.page.number.or(rule.page.address).unwrap_or_default();
        let register = register::of_argument(number).ok_or("takes that argument in no register")?;
        let argument = Argument { register, is_int: rule.page.number.is_some() };
        let number = variable.checked_add(counter.at.into()).ok_or("has no such variable")?;
        counted::places(&text, address, argument, Number { variable, address: number })
    }

    fn probe(
        &self,
        parsed: &Parsed<'_>,
        address: u64,
        name: &str,
        rule: BufferRule,
    ) -> Result<Probe, String> {
        let offset = parsed.in_file(address, name)?;
        Ok(Probe {
            binary: self.path.clone(),
            file: self.file.clone(),
            offset,
            listeners: 0,
            name: name.to_owned(),
            rule,
            remark: None,
        })
    }
}

/// The rule for a place in a function; `None`: no register can hold the argument there.
fn rule_at(place: Place, rule: BufferRule) -> Option<BufferRule> {
    Some(BufferRule {
        argument: register::code(place.register)?,
        base: place.base.map_or(0, |base| base.wrapping_sub(place.address).cast_signed()),
        bias: place.bias,
        shift: place.shift,
        was_clean: 1,
        ..rule
    })
}

fn names(rules: &[Rule]) -> String {
    rules.iter().map(Rule::name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_program_has_functions() {
        let this = Binary::open(&std::env::current_exe().expect("it runs")).expect("it can be read");
        let none = this.own_probes().expect_err("this program does not use pcstream.h");
        assert!(none.contains("no probes of pcstream.h"), "{none}");
        let lacks = |what: &str| {
            let text =
                format!("program = '/a'\npage_bytes = 4096\n[[dirty]]\n{what}\npage = {{ address = 1 }}\n");
            this.probes(&super::super::rules::parse(&text).expect("rules")).expect_err("it has none")
        };
        assert!(lacks("function = 'nothing'").contains("-dbgsym"));
        let probe = lacks("probe = 'no:thing'");
        assert!(probe.contains("static probe no:thing") && !probe.contains("symbols"), "{probe}");
    }
}
