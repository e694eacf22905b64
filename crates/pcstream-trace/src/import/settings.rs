//! What to import, and how; checked when the importer is made.

use std::collections::BTreeMap;

use super::{FORMATS, Format, FormatOption};

/// Largest device: 64 PiB. No disk comes near, and a line of nonsense cannot become more than a few
/// thousand events.
pub const MAX_PAGES: u64 = 1 << 44;

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The format of the lines.
    pub format: &'static Format,
    /// Choices for the format's own options by name; those not given take their defaults.
    pub options: BTreeMap<String, String>,
    /// The only volume to import; without it, there must be only one.
    pub volume: Option<String>,
    /// Size of the device in pages; without it, the device ends behind the last request, at a
    /// multiple of 1 MiB.
    pub pages: Option<u64>,
    /// Whether the whole device counts as filled before the first request.
    pub assume_filled: bool,
}

impl Settings {
    /// The defaults of a format.
    pub fn new(format: &'static Format) -> Settings {
        Settings { format, options: BTreeMap::new(), volume: None, pages: None, assume_filled: false }
    }
}

/// Settings that no importer can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The option belongs to another format.
    #[error("--{option} does not apply to format {format}{}", whose(option))]
    Option {
        /// The format.
        format: &'static str,
        /// The option.
        option: String,
    },
    /// The option takes no such word or text.
    #[error("--{option} {problem}")]
    Choice {
        /// The option.
        option: &'static str,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// All lines of the format are of one volume.
    #[error("--volume {volume:?}: format {format} has no column for volumes; leave the flag out")]
    NoVolumes {
        /// The format.
        format: &'static str,
        /// The volume.
        volume: String,
    },
    /// The size is out of range.
    #[error("the size of the device is {pages} pages of 4 KiB, expected 1 to {MAX_PAGES} (64 PiB)")]
    Size {
        /// The size in pages.
        pages: u64,
    },
}

/// `; it is an option of X`, if it is one of any format.
fn whose(option: &str) -> String {
    let formats = FORMATS.iter().filter(|f| f.options.iter().any(|o| o.name == option));
    let names: Vec<&str> = formats.map(|f| f.name).collect();
    if names.is_empty() { String::new() } else { format!("; it is an option of {}", names.join(" and ")) }
}

/// One choice for every option of the format.
pub(super) fn choices(
    format: &'static Format,
    given: &BTreeMap<String, String>,
) -> Result<Vec<String>, SettingsError> {
    if let Some(option) = given.keys().find(|&name| format.options.iter().all(|o| o.name != name)) {
        return Err(SettingsError::Option { format: format.name, option: option.clone() });
    }
    let choice = |option: &FormatOption| match given.get(option.name) {
        None => Ok(option.choices[0].to_owned()),
        Some(found) if option.choices.contains(&found.as_str()) => Ok(found.clone()),
        Some(found) => {
            let checked = match option.text {
                Some(text) => (text.check)(found),
                None => Err(format!("{found:?}: expected {}", option.choices.join(" or "))),
            };
            let refused = |problem| SettingsError::Choice { option: option.name, problem };
            checked.map(|()| found.clone()).map_err(refused)
        }
    };
    format.options.iter().map(choice).collect()
}
