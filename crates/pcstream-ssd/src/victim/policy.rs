//! A policy as settings name it: its entry in the registry, and a parameter if it takes one.
//!
//! Its text is `NAME` or `NAME:PARAMETER`, on the command line, in device files and in results.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use super::{New, REGISTRY, Select, Superblocks, VictimInfo, greedy};
use crate::names::UnknownName;

/// A rule that chooses victims. `"d-choices:3".parse()` makes one; the default is greedy.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct VictimPolicy {
    info: &'static VictimInfo,
    /// 0 if it has none.
    parameter: u32,
}

impl VictimPolicy {
    /// The policy with its default parameter.
    fn new(info: &'static VictimInfo) -> VictimPolicy {
        VictimPolicy { info, parameter: info.parameter.as_ref().map_or(0, |parameter| parameter.default) }
    }

    /// Every policy with its default parameter, in the order in which users see them.
    pub fn known() -> impl ExactSizeIterator<Item = VictimPolicy> + Clone {
        REGISTRY.iter().map(VictimPolicy::new)
    }

    /// The names of all policies, for help and error messages.
    pub fn names() -> Vec<&'static str> {
        REGISTRY.iter().map(|info| info.name).collect()
    }

    /// What is known of it, whatever its parameter.
    pub fn info(self) -> &'static VictimInfo {
        self.info
    }

    /// The name without the parameter.
    pub fn name(self) -> &'static str {
        self.info.name
    }

    /// Its parameter, if it has one.
    pub fn parameter(self) -> Option<u32> {
        self.info.parameter.as_ref().map(|_| self.parameter)
    }

    /// The same policy with another parameter; `None` if it has none or the value is out of range.
    pub fn with_parameter(self, value: u32) -> Option<VictimPolicy> {
        let parameter = self.info.parameter.as_ref()?;
        parameter.range.contains(&value).then_some(VictimPolicy { parameter: value, ..self })
    }

    /// List heads that it adds to the table, for superblocks of `pages` pages and for `frontiers` of them.
    pub(crate) fn heads(self, pages: u32, frontiers: u32) -> u64 {
        (self.info.heads)(pages, frontiers)
    }

    /// Makes its state, and whatever it needs in `table`. `frontiers` is how many there are.
    pub(crate) fn make(self, table: &mut Superblocks, frontiers: u32, seed: u64) -> Box<dyn Select + Send> {
        (self.info.make)(New { table, parameter: self.parameter, frontiers, seed })
    }
}

impl Default for VictimPolicy {
    fn default() -> Self {
        VictimPolicy::new(&greedy::INFO)
    }
}

impl PartialEq for VictimPolicy {
    fn eq(&self, other: &Self) -> bool {
        (self.name(), self.parameter) == (other.name(), other.parameter)
    }
}

impl Eq for VictimPolicy {}

impl Hash for VictimPolicy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name(), self.parameter).hash(state);
    }
}

impl fmt::Display for VictimPolicy {
    /// The name as `FromStr` reads it: `greedy`, `d-choices:10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.parameter().map_or(Ok(()), |value| write!(f, ":{value}"))
    }
}

impl fmt::Debug for VictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VictimPolicy({self})")
    }
}

impl FromStr for VictimPolicy {
    type Err = UnknownName;

    /// `NAME` or `NAME:PARAMETER`.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let known = Self::known().find(|policy| policy.name() == name);
        let found = match parameter {
            None => known,
            Some(value) => {
                known.zip(value.parse().ok()).and_then(|(policy, value)| policy.with_parameter(value))
            }
        };
        found.ok_or_else(|| UnknownName {
            what: "victim policy",
            found: text.to_owned(),
            expected: expected(),
        })
    }
}

/// All names, and what parameters may be given.
fn expected() -> String {
    let with_parameter = REGISTRY.iter().filter_map(|info| {
        let parameter = info.parameter.as_ref()?;
        let (name, least, most) = (parameter.name, parameter.range.start(), parameter.range.end());
        Some(format!("{}:{name} with {name} from {least} to {most}", info.name))
    });
    format!("{} ({})", VictimPolicy::names().join(", "), with_parameter.collect::<Vec<_>>().join(", "))
}

#[cfg(feature = "serde")]
impl TryFrom<String> for VictimPolicy {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

#[cfg(feature = "serde")]
impl From<VictimPolicy> for String {
    fn from(policy: VictimPolicy) -> String {
        policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::VictimParameter;
    use super::*;

    #[test]
    fn every_policy_is_found_by_what_it_prints() {
        for policy in VictimPolicy::known() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let three: VictimPolicy = "d-choices:3".parse().unwrap();
        assert_eq!((three.name(), three.parameter()), ("d-choices", Some(3)));
        assert_ne!(Ok(three), "d-choices".parse());
        assert_eq!(VictimPolicy::default().to_string(), "greedy");
        for wrong in ["gredy", "greedy:1", "d-choices:0", "d-choices:x", "windowed-greedy:101", ""] {
            let error = wrong.parse::<VictimPolicy>().unwrap_err().to_string();
            assert!(error.contains("greedy, greedy-wear, fifo") && error.contains(wrong), "{error}");
            assert!(error.contains("d-choices:D with D from 1 to 1000"), "{error}");
        }
    }

    /// A name that two have, or that text cannot name, would make one of them impossible to ask for.
    #[test]
    fn no_two_entries_share_a_name_and_defaults_are_in_range() {
        assert_eq!(VictimPolicy::names().into_iter().collect::<HashSet<_>>().len(), REGISTRY.len());
        for info in REGISTRY {
            assert!(!info.name.contains([':', ',', ' ']), "{}", info.name);
            let legal = |parameter: &VictimParameter| parameter.range.contains(&parameter.default);
            assert!(info.parameter.as_ref().is_none_or(legal), "{}: its default is out of range", info.name);
        }
    }
}
