//! No circles of imports between the modules of a crate, or of the Python package.
//!
//! Modules of one parent are compared, each with all that lies below it. What a parent re-exports counts as the module that
//! it comes from. Unit tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Faults, Source};

/// Path of a module below the crate's root.
type Module = Vec<String>;
/// Who imports whom, among the children of a module.
type Graph = BTreeMap<String, BTreeSet<String>>;

pub fn check(sources: &[Source], faults: &mut Faults) {
    let mut crates: BTreeMap<&str, BTreeMap<Module, String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.extension() == "rs") {
        if let Some((name, file)) = source.path.split_once("/src/") {
            crates.entry(name).or_default().insert(module_of(file), without_tests(&source.text));
        }
    }
    for (name, modules) in crates {
        for (parent, graph) in graphs(&modules) {
            report(&format!("{name}/src/{}", parent.join("/")), &graph, faults);
        }
    }
    for (package, graph) in packages(sources) {
        report(package, &graph, faults);
    }
}

fn report(place: &str, graph: &Graph, faults: &mut Faults) {
    for circle in circles(graph) {
        println!("circle in {place}: {}", circle.join(", "));
        *faults.entry(("import-circle".into(), place.to_owned())).or_default() += circle.len();
    }
}

/// Python packages by directory. Imports for types alone count.
fn packages(sources: &[Source]) -> BTreeMap<&str, Graph> {
    let mut packages: BTreeMap<&str, Graph> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.extension() == "py") {
        let Some((package, file)) = source.path.rsplit_once('/') else { continue };
        let relative = source.text.lines().filter_map(|line| line.trim().strip_prefix("from ."));
        let imported = relative.filter_map(|line| line.split_once(" import ")).flat_map(|(module, names)| {
            let of = if module.is_empty() { names } else { module };
            of.split([',', ' ', '(', '#'])
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        let module = file.trim_end_matches(".py").to_owned();
        packages.entry(package).or_default().entry(module).or_default().extend(imported);
    }
    packages
}

fn module_of(file: &str) -> Module {
    let path = file.trim_end_matches(".rs");
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    if ["lib", "main", "mod"].contains(&parts.last().map_or("", String::as_str)) {
        parts.pop();
    }
    parts
}

/// Code without comments and without what follows the first unit test.
fn without_tests(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn graphs(modules: &BTreeMap<Module, String>) -> BTreeMap<Module, Graph> {
    let mut graphs: BTreeMap<Module, Graph> = BTreeMap::new();
    for (from, text) in modules {
        for path in paths(from, text) {
            let to = resolve(modules, &path, 0);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                let graph = graphs.entry(from[..common].to_vec()).or_default();
                graph.entry(a.clone()).or_default().insert(b.clone());
            }
        }
    }
    graphs
}

/// The module in which a path ends, through re-exports.
fn resolve(modules: &BTreeMap<Module, String>, path: &[String], depth: usize) -> Module {
    let known = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n])).unwrap_or(0);
    let (module, rest) = path.split_at(known);
    let exported = rest.first().filter(|_| depth < 8).and_then(|name| {
        let uses = modules.get(module)?.lines().filter(|line| line.trim_start().starts_with("pub"));
        let whole = uses.filter_map(|line| line.split_once("use ")).map(|(_, what)| what).collect::<Vec<_>>();
        let paths = whole.iter().flat_map(|what| expand(what));
        paths
            .filter(|p| p.last() == Some(name) && p.len() > 1 && p[0] != "crate")
            .find(|p| modules.contains_key(&[module, &p[..1]].concat()))
    });
    match exported {
        Some(path) => resolve(modules, &[module, &path].concat(), depth + 1),
        None => module.to_vec(),
    }
}

/// Absolute paths of everything in the crate that a module names.
fn paths(from: &[String], text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let before = text[..at].chars().next_back();
        if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            found.extend(expand(&text[at + "crate::".len()..]));
        }
    }
    for (at, _) in text.match_indices("super::") {
        if text[..at].ends_with("super::") {
            continue;
        }
        let ups = text[at..].split("super::").take_while(|part| part.is_empty()).count();
        let base = &from[..from.len().saturating_sub(ups)];
        let rest = &text[at + ups * "super::".len()..];
        found.extend(expand(rest).into_iter().map(|path| [base, &path].concat()));
    }
    found
}

/// The paths of `a::{b, c::d}`: every leaf, up to the first thing that is no path.
fn expand(text: &str) -> Vec<Module> {
    let (found, _) = text.strip_prefix('{').map_or_else(|| tree(text), group);
    found
}

fn tree(text: &str) -> (Vec<Module>, usize) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !rest.starts_with("::") || name.is_empty() {
        return (vec![vec![name.to_owned()]], end);
    }
    let (below, used) = if rest[2..].starts_with('{') { group(&rest[3..]) } else { tree(&rest[2..]) };
    let extra = if rest[2..].starts_with('{') { 3 } else { 2 };
    let whole = below.into_iter().map(|path| [vec![name.to_owned()], path].concat()).collect();
    (whole, end + extra + used)
}

fn group(text: &str) -> (Vec<Module>, usize) {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() && !text[at..].starts_with('}') {
        let skip =
            text[at..].find(|c: char| c.is_alphanumeric() || c == '_' || c == '}').unwrap_or(text.len() - at);
        at += skip;
        if text[at..].starts_with('}') || at >= text.len() {
            break;
        }
        let (paths, used) = tree(&text[at..]);
        found.extend(paths);
        at += used.max(1);
        // `as NAME` renames; the name is no path of its own.
        if let Some(rest) = text[at..].strip_prefix(" as ") {
            at += " as ".len() + rest.find([',', '}']).unwrap_or(rest.len());
        }
    }
    (found, (at + 1).min(text.len()))
}

/// Groups of modules that reach each other.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reach = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(at) = open.pop() {
            for next in graph.get(&at).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|name| (name, reach(name))).collect();
    let mut found = BTreeSet::new();
    for (name, seen) in &reached {
        let circle: Vec<String> = seen
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(*name)))
            .cloned()
            .collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

#[test]
fn circles_are_found() {
    let source = |path: &str, text: &str| Source { path: format!("c/src/{path}"), text: text.into() };
    let sources = [
        source("lib.rs", "pub mod a;\npub mod b;\npub mod d;\npub use b::{Thing, Other as Another};\n"),
        source("a.rs", "use crate::{d::{self, X}, Thing};\n#[cfg(test)]\nmod tests { use crate::e::E; }"),
        source("b/mod.rs", "mod inner;"),
        source("b/inner.rs", "fn f() { crate::a::g() }"),
        source("d.rs", "use super::e::E;"),
        source("e.rs", "// crate::a\n"),
    ];
    let python = |name: &str, text: &str| Source { path: format!("p/{name}.py"), text: text.into() };
    let sources = sources.into_iter().chain([
        python("_a", "from . import _b, _d\nimport json\n"),
        python("_b", "if TYPE_CHECKING:\n    from ._c import C\n"),
        python("_c", "from ._a import (\n    A,\n)\n"),
        python("_d", "import _a\n"),
    ]);
    let sources: Vec<Source> = sources.collect();
    let mut faults = Faults::new();
    check(&sources, &mut faults);
    let found: Vec<_> =
        faults.iter().map(|((rule, place), modules)| format!("{rule} {place} {modules}")).collect();
    let expected = ["import-circle c/src/ 2", "import-circle p 3"];
    assert_eq!(found, expected, "a reaches b by a re-export, b reaches a from below; _a, _b, _c in Python");
}
