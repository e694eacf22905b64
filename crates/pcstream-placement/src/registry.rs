//! The registry: one line per scheme. A new scheme is one file and one line here.

use crate::autostream_mq::MqParams;
use crate::autostream_sfr::SfrParams;
use crate::baseline::BaselineParams;
use crate::error::SchemeError;
use crate::fstream::FStreamParams;
use crate::hints::HintsParams;
use crate::manual::ManualParams;
use crate::names::nearest;
use crate::oracle::{OracleForm, OracleParams, WindowParams};
use crate::parameter::{AnyParameters, Environment, ParameterInfo, Parameters, SchemeFactory};
use crate::pcstream::PcStreamParams;
use crate::pcstream::key::KeySource;
use crate::plus::PlusParams;
use crate::scheme::Scheme;
use crate::sequential::SequentialParams;

/// A registered scheme.
#[derive(Clone, Copy, Debug)]
pub struct SchemeInfo {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    needs_future: bool,
    params: fn() -> Box<dyn AnyParameters>,
}

impl SchemeInfo {
    /// Whether `Environment::future` must be given.
    pub fn needs_future(&self) -> bool {
        self.needs_future
    }

    /// Its parameters with their defaults.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        (self.params)().list()
    }

    /// The names of its readings.
    pub fn readings(&self) -> Vec<&'static str> {
        (self.params)().readings()
    }

    /// The scheme with its defaults, to be changed.
    pub fn configure(&self) -> Configured {
        Configured { info: *self, name: self.name.to_owned(), params: (self.params)() }
    }

    /// Makes the scheme with its defaults.
    pub fn build(&self, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        self.configure().build(environment)
    }
}

/// A scheme with values for its parameters: a registered one, or one of one's own.
#[derive(Clone, Debug)]
pub struct Configured {
    info: SchemeInfo,
    name: String,
    params: Box<dyn AnyParameters>,
}

impl Configured {
    /// A scheme that is in no registry, with the defaults of its parameters. It must not need the future.
    ///
    /// ```
    /// use pcstream_placement::error::check;
    /// use pcstream_placement::parameter::Parameter;
    /// use pcstream_placement::{Configured, Environment, Parameters, Placement, Scheme, SchemeError};
    /// use pcstream_placement::{SchemeFactory as _, Stream, parameter};
    /// use pcstream_trace::{Event, Tables};
    ///
    /// /// Writes of at least so many pages go to S1.
    /// #[derive(Clone, Copy, Debug, Default)]
    /// struct BySize {
    ///     pages: u32,
    /// }
    ///
    /// impl Parameters for BySize {
    ///     const LIST: &'static [Parameter<BySize>] =
    ///         &[parameter!(BySize, pages, "pages", "what a large write has, at least 1", "a guess")];
    ///
    ///     fn build(&self, scheme: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
    ///         check(self.pages > 0, scheme, "pages", self.pages, "at least 1")?;
    ///         check(environment.streams() > 1, scheme, "streams", environment.streams(), "at least 2")?;
    ///         Ok(Box::new(*self))
    ///     }
    /// }
    ///
    /// impl Scheme for BySize {
    ///     fn place(&mut self, event: &Event, _: u64, _: &Tables, out: &mut Vec<Placement>) {
    ///         let stream = Stream(u8::from(event.pages >= self.pages));
    ///         out.push(Placement { pages: event.pages, stream });
    ///     }
    /// }
    ///
    /// let mut scheme = Configured::own::<BySize>("by-size");
    /// let error = scheme.build(&Environment::new(9)?).err().expect("0 pages");
    /// assert_eq!(error.to_string(), "by-size.pages is 0, but must be at least 1");
    /// scheme.set("pages", "64")?;
    /// assert_eq!(scheme.changed(), [("pages", "64".to_owned())]);
    /// scheme.build(&Environment::new(9)?)?;
    /// # Ok::<(), SchemeError>(())
    /// ```
    pub fn own<P: Parameters>(name: &'static str) -> Configured {
        online(name, "", default::<P>).configure()
    }

    /// The scheme's name, in the registry if it is there.
    pub fn scheme(&self) -> &'static str {
        self.info.name
    }

    /// Gives it another name in results.
    pub fn rename(&mut self, name: String) {
        self.name = name;
    }

    /// Its parameters with their values.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        self.params.list()
    }

    /// Sets a parameter from a text. Errors name the parameters there are, or the values.
    pub fn set(&mut self, parameter: &str, value: &str) -> Result<(), SchemeError> {
        self.params.set(self.info.name, parameter, value)
    }

    /// Sets all parameters to those of a reading, such as `sepbit` of `autostream-mq`.
    pub fn set_reading(&mut self, reading: &str) -> Result<(), SchemeError> {
        if self.params.read_as(reading) {
            self.name = format!("{}:{reading}", self.info.name);
            return Ok(());
        }
        Err(SchemeError::UnknownReading {
            scheme: self.info.name,
            name: reading.to_owned(),
            known: self.params.readings(),
        })
    }

    /// The parameters as what they are; `None` if those of this scheme are of another kind.
    pub fn params_mut<P: Parameters>(&mut self) -> Option<&mut P> {
        self.params.as_any().downcast_mut()
    }
}

impl SchemeFactory for Configured {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs_future(&self) -> bool {
        self.info.needs_future
    }

    fn reads_addresses(&self, superblock_pages: u32) -> bool {
        self.params.reads_addresses(superblock_pages)
    }

    fn bytes_for(&self, pages: u64) -> u64 {
        self.params.bytes_for(pages)
    }

    fn changed(&self) -> Vec<(&'static str, String)> {
        let both = self.info.parameters().into_iter().zip(self.parameters());
        both.filter(|(default, own)| default.value != own.value)
            .map(|(_, own)| (own.name, own.value))
            .collect()
    }

    fn build(&self, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        self.params.build(self.info.name, environment)
    }
}

type Params = fn() -> Box<dyn AnyParameters>;

const fn online(name: &'static str, summary: &'static str, params: Params) -> SchemeInfo {
    SchemeInfo { name, summary, needs_future: false, params }
}

const fn foreseeing(name: &'static str, summary: &'static str, params: Params) -> SchemeInfo {
    SchemeInfo { name, summary, needs_future: true, params }
}

/// The defaults of a kind of scheme.
fn default<P: Parameters>() -> Box<dyn AnyParameters> {
    Box::new(P::default())
}

/// Its defaults but for what a variant changes.
fn with<P: Parameters>(vary: impl Fn(&mut P)) -> Box<dyn AnyParameters> {
    let mut params = P::default();
    vary(&mut params);
    Box::new(params)
}

/// Every scheme, in the order in which reports show them.
#[rustfmt::skip]
static REGISTRY: &[SchemeInfo] = &[
    online("baseline", "everything to the default stream S0", default::<BaselineParams>),
    online("manual", "rules that a person wrote: path, name, kind, program -> stream", default::<ManualParams>),
    online("hints", "what the program asked for: write hints (F_SET_RW_HINT) and write streams", default::<HintsParams>),
    online("autostream-mq", "AutoStream multi-queue (after SYSTOR'17): access counts of 1 MiB chunks", default::<MqParams>),
    online("autostream-sfr", "AutoStream SFR (SYSTOR'17): sequentiality, frequency, recency of chunks", default::<SfrParams>),
    online("sequential", "a stream for each sequential pattern, found in the device (HotStorage'14)", default::<SequentialParams>),
    online("fstream", "file-system kinds: journal, inodes, directories, bitmaps (FAST'18)", default::<FStreamParams>),
    online("pcstream", "program contexts grouped by lifetime (FAST'19)", default::<PcStreamParams>),
    online("pcstream-paper", "pcstream as FAST'19 has it: lifetimes by chunks, new contexts wait in S0", || with(PcStreamParams::by_the_letter)),
    online("pcstream-kinds", "pcstream; file-system metadata is learned by its kind instead of left in S0", || with(|p: &mut PcStreamParams| p.kinds = true)),
    online("pcstream-tree", "pcstream; a call path with few lifetimes goes by its innermost frames or its program", || with(|p: &mut PcStreamParams| p.key = KeySource::ContextTree)),
    online("pcstream-forget", "pcstream; its table is emptied when a linker ends, so after each build (FAST'19: no table)", || with(PcStreamParams::forget_builds)),
    online("pcstream-plus", "ours: contexts, file names and the earlier lifetimes of each page", default::<PlusParams>),
    online("pcstream-plus-context", "pcstream-plus by contexts alone, so that `place` can give real writes its streams", || with(PlusParams::contexts_alone)),
    online("vstream-extension", "pcstream's mapper by file extension instead of context (after vStream, HotStorage'18)", || with(|p: &mut PcStreamParams| p.key = KeySource::Extension)),
    online("vstream-file", "pcstream's mapper by file", || with(|p: &mut PcStreamParams| p.key = KeySource::File)),
    online("vstream-executable", "pcstream's mapper by executable", || with(|p: &mut PcStreamParams| p.key = KeySource::Executable)),
    foreseeing("oracle", "knows the future: clusters of the logarithm of the remaining lifetime", default::<OracleParams>),
    foreseeing("oracle-fk", "knows the future: remaining lifetime in superblocks (FK of SepBIT, FAST'22)", || with(|p: &mut OracleParams| p.form = OracleForm::Fk)),
    foreseeing("oracle-quantile", "knows the future: classes of remaining lifetime with equally many pages", || with(|p: &mut OracleParams| p.form = OracleForm::Quantile)),
    foreseeing("oracle-window", "knows the future: windows of absolute death time (after NoDaP, FAST'26)", default::<WindowParams>),
];

/// Every scheme, in report order.
pub fn schemes() -> &'static [SchemeInfo] {
    REGISTRY
}

/// The names of every scheme, in report order.
pub fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|s| s.name)
}

/// The scheme of this name; an unknown name comes back with those that resemble it.
pub fn find(name: &str) -> Result<&'static SchemeInfo, SchemeError> {
    REGISTRY.iter().find(|s| s.name == name).ok_or_else(|| {
        // NAME:READING is a choice of `configure`; here NAME alone is meant.
        let read = name.split_once(':').and_then(|(of, _)| names().find(|&known| known == of));
        SchemeError::Unknown {
            name: name.to_owned(),
            nearest: read.map_or_else(|| nearest(name, names()), |of| vec![of]),
            known: names().collect(),
        }
    })
}

/// The scheme that `NAME` or `NAME:READING` means.
pub fn configure(text: &str) -> Result<Configured, SchemeError> {
    let (name, reading) = text.split_once(':').map_or((text, None), |(name, reading)| (name, Some(reading)));
    let mut configured = find(name)?.configure();
    reading.map_or(Ok(()), |reading| configured.set_reading(reading))?;
    Ok(configured)
}

/// Makes the scheme of this name, with its defaults.
pub fn build(name: &str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
    find(name)?.build(environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::device;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut seen: Vec<&str> = names().collect();
        assert!(seen.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), REGISTRY.len());
    }

    #[test]
    fn an_unknown_name_gets_its_neighbours() {
        let message = |name| build(name, &device(9)).err().expect("unknown").to_string();
        assert_eq!(message("pcstrem"), "no scheme is called 'pcstrem'; did you mean pcstream?");
        assert_eq!(
            message("autostream"),
            "no scheme is called 'autostream'; did you mean autostream-mq or autostream-sfr?"
        );
        assert!(
            message("zzzzzzzz")
                .starts_with("no scheme is called 'zzzzzzzz'; the schemes are baseline, manual,")
        );
        assert_eq!(
            message("autostream-mq:sepbit"),
            "no scheme is called 'autostream-mq:sepbit'; did you mean autostream-mq?"
        );
        assert!(message(&"x".repeat(1 << 20)).contains("the schemes are"));
    }

    #[test]
    fn only_the_oracle_with_windows_has_a_window() {
        for scheme in names().filter(|name| name.starts_with("oracle")) {
            let set = configure(scheme).unwrap().set("window_pages", "3");
            assert_eq!(set.is_ok(), scheme == "oracle-window", "{scheme}: {set:?}");
        }
    }

    #[test]
    fn an_oracle_without_a_future_says_so() {
        for info in schemes().iter().filter(|s| s.needs_future()) {
            assert_eq!(info.build(&device(9)).err(), Some(SchemeError::NeedsFuture { scheme: info.name }));
        }
        assert!(find("oracle").unwrap().needs_future());
    }

    #[test]
    fn every_parameter_takes_back_what_it_shows_and_is_explained() {
        for info in schemes() {
            let mut configured = info.configure();
            let parameters = configured.parameters();
            for (number, parameter) in parameters.iter().enumerate() {
                configured.set(parameter.name, &parameter.value).unwrap();
                assert!(!parameter.about.is_empty() && !parameter.source.is_empty(), "{}", parameter.name);
                assert!(parameters[..number].iter().all(|other| other.name != parameter.name));
            }
            assert_eq!(configured.parameters(), parameters, "{}", info.name);
        }
    }

    #[test]
    fn a_value_that_is_set_arrives() {
        let mut sequential = configure("sequential").unwrap();
        sequential.set("patterns", "7").unwrap();
        assert_eq!(sequential.params_mut::<SequentialParams>().unwrap().patterns, 7);
        assert!(sequential.params_mut::<MqParams>().is_none());
        let mut pcstream = configure("pcstream").unwrap();
        for (name, value) in [("mapper.distance", "log"), ("averaging", "0.25"), ("lifetime.chunk", "9")] {
            pcstream.set(name, value).unwrap();
            assert_eq!(pcstream.parameters().iter().find(|p| p.name == name).unwrap().value, value);
        }
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_what_can() {
        let refused =
            |name, value| configure("sequential").unwrap().set(name, value).unwrap_err().to_string();
        assert_eq!(
            refused("pattern", "1"),
            "scheme 'sequential' has no parameter 'pattern'; did you mean patterns? It has patterns, candidates"
        );
        assert_eq!(
            refused("patterns", "256"),
            "sequential.patterns is '256', but must be a whole number from 0 to 255"
        );
        assert_eq!(
            configure("baseline").unwrap().set("x", "1").unwrap_err().to_string(),
            "scheme 'baseline' has no parameter 'x'; it has none"
        );
        assert_eq!(
            configure("autostream-mq:bdbm").unwrap_err().to_string(),
            "scheme 'autostream-mq' has no reading 'bdbm'; its readings are default, bluedbm, chunk-256k, chunk-4m, \
             scaled, sepbit, keeping, keeping-scaled, before-promotion, halving, halving-pages, halving-scaled"
        );
        assert_eq!(
            configure("baseline:x").unwrap_err().to_string(),
            "scheme 'baseline' has no reading 'x'; it has none"
        );
    }

    #[test]
    fn every_reading_is_found_and_can_be_made() {
        for info in schemes() {
            for reading in info.readings() {
                let configured = configure(&format!("{}:{reading}", info.name)).unwrap();
                assert_eq!(configured.name(), format!("{}:{reading}", info.name));
                configured.build(&device(9)).unwrap();
            }
        }
        assert!(!find("autostream-mq").unwrap().readings().is_empty());
    }
}
