//! Finds the files that hold a module's debug information apart from it.
//!
//! Idea: a debug file belongs to a module if both have the same build id. It lies below [`DEBUG_FILES`], under its build id
//! or where its link says, or beside the module. A supplementary file holds what several debug files share
//! (`dwz -m`; DWARF 5, section 7.3.6), and has a build id of its own, which they name.
//!
//! Invariants: whoever is traced chose the links. So a link leads to nothing but files below [`DEBUG_FILES`], which root
//! installed, and files beside the module ([`open_beside`]); what is found counts only with the build id wanted.
//!
//! Known weaknesses: debug files of modules without a build id are not looked for. A supplementary file that is named by a
//! path relative to its debug file is found by its build id alone, or beside the module.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use object::Object;

use crate::modules::build_id;
use crate::modules::module_data::Elf;
use crate::modules::module_file::{open_beside, open_regular};

const DEBUG_FILES: &str = "/usr/lib/debug";

/// The debug file of a module, which was opened at `path`.
pub(crate) fn debug_file(file: &File, module: &Elf<'_>, path: &Path) -> Option<File> {
    let id = build_id(file)?;
    let is_its = |file: &File| build_id(file).is_some_and(|its| its == id);
    if let Some(file) = open_regular(&by_id(&id)?).filter(is_its) {
        return Some(file);
    }
    let (link, _) = module.gnu_debuglink().ok().flatten()?;
    let name = name_alone(link)?;
    let dir = path.parent()?;
    let central = Path::new(DEBUG_FILES).join(dir.strip_prefix("/").unwrap_or(dir));
    open_beside(file, path, name)
        .filter(is_its)
        .or_else(|| open_beside(file, path, &Path::new(".debug").join(name)).filter(is_its))
        .or_else(|| open_regular(&central.join(name)).filter(is_its))
}

/// The supplementary file that `debug` names: a module's debug file, or the module `file` itself, which was opened at `path`.
pub(crate) fn supplementary_file(file: &File, debug: &Elf<'_>, path: &Path) -> Option<File> {
    let (link, id) = debug.gnu_debugaltlink().ok().flatten()?;
    let is_its = |file: &File| build_id(file).is_some_and(|its| its == id);
    if let Some(file) = open_regular(&by_id(id)?).filter(is_its) {
        return Some(file);
    }
    let link_path = Path::new(std::str::from_utf8(link).ok()?);
    let is_central = link_path.starts_with(DEBUG_FILES)
        && link_path.components().all(|part| !matches!(part, Component::ParentDir));
    if is_central {
        return open_regular(link_path).filter(is_its);
    }
    open_beside(file, path, name_alone(link)?).filter(is_its)
}

/// Where distributions install what has a build id.
fn by_id(id: &[u8]) -> Option<PathBuf> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    (id.len() > 2)
        .then(|| PathBuf::from(format!("{DEBUG_FILES}/.build-id/{}/{}.debug", &hex[..2], &hex[2..])))
}

/// A link that is a file's name, and no path.
fn name_alone(link: &[u8]) -> Option<&Path> {
    let name = std::str::from_utf8(link).ok()?;
    (!name.contains('/') && !name.starts_with('.')).then(|| Path::new(name))
}
