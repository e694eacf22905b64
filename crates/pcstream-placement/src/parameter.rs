//! Parameters of schemes: declared once, beside the scheme, and set and shown by name.
//!
//! Idea: a scheme's parameters are a plain struct with defaults. A list beside it gives each field a name, a
//! unit, a sentence and a source. Everything that deals with parameters by name (a command line, a help
//! text) goes by that list, so that a new parameter is one field and one entry.
//!
//! Texts are parsed here and ranges are checked when the scheme is made.

use std::any::Any;
use std::fmt;
use std::num::NonZeroU8;
use std::sync::Arc;

pub use pcstream_trace::named;

use crate::error::SchemeError;
use crate::future::Future;
use crate::names::nearest;
use crate::scheme::Scheme;
use crate::size::size;

/// What a scheme knows of the device and the trace that it is made for.
#[derive(Clone, Debug)]
pub struct Environment {
    streams: NonZeroU8,
    /// Pages of a superblock of the device.
    pub superblock_pages: u32,
    /// How many superblocks can be open; `None` where the device does not say.
    pub room: Option<Room>,
    /// When each page of the trace dies; only for schemes that look ahead.
    pub future: Option<Arc<Future>>,
}

/// What open superblocks cost a device. Each is on average half empty, and garbage collection cannot empty it: the spare
/// area is smaller by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Superblocks beyond those that the logical pages fill.
    pub spare_superblocks: u32,
    /// Superblocks that a stream keeps open: 1, or 2 with an internal stream.
    pub open_per_stream: u32,
    /// Open superblocks that belong to no stream.
    pub open_shared: u32,
}

impl Environment {
    /// A device with `streams` streams, S0 included, superblocks of 4096 pages (16 MiB) and an unknown future.
    /// Errors: there is no stream.
    pub fn new(streams: u8) -> Result<Environment, SchemeError> {
        let streams = NonZeroU8::new(streams).ok_or(SchemeError::NoStreams)?;
        Ok(Environment { streams, superblock_pages: 4096, room: None, future: None })
    }

    /// Streams of the device, S0 included: at least one.
    pub fn streams(&self) -> u8 {
        self.streams.get()
    }

    /// Streams, S0 included, whose open superblocks take at most `share` of the spare ones; all from a share of 1 on, or
    /// where the device does not say. Fewer than three separate nothing that was learned, S0 being for what is unknown:
    /// then three, if they take at most a third of the spare superblocks, or else one.
    pub fn streams_within(&self, share: f64) -> u8 {
        let Some(room) = self.room.filter(|_| share < 1.0) else { return self.streams() };
        let within = |share: f64| {
            let open = (f64::from(room.spare_superblocks) * share) as u32;
            let streams = open.saturating_sub(room.open_shared) / room.open_per_stream.max(1);
            u8::try_from(streams).unwrap_or(u8::MAX).min(self.streams())
        };
        let (streams, least) = (within(share), LEAST_STREAMS.min(self.streams()));
        if streams >= least {
            return streams;
        }
        if within(LEAST_SHARE.max(share)) >= least { least } else { 1 }
    }
}

/// Streams that separate anything, S0 included.
const LEAST_STREAMS: u8 = 3;
/// Share of the spare superblocks up to which these are used.
const LEAST_SHARE: f64 = 1.0 / 3.0;

/// Makes a scheme, once for each device that it runs on.
pub trait SchemeFactory: fmt::Debug + Send + Sync {
    /// The name in results.
    fn name(&self) -> &str;

    /// Whether [`Environment::future`] must be given.
    fn needs_future(&self) -> bool {
        false
    }

    /// Whether, on a device with such superblocks, it matters which pages lie beside each other. Keeping something of each
    /// page by its address does not count.
    fn reads_addresses(&self, _superblock_pages: u32) -> bool {
        false
    }

    /// Bytes that the scheme keeps of `pages` pages that are written, at most; what is small whatever is written does not count.
    fn bytes_for(&self, _pages: u64) -> u64 {
        0
    }

    /// Parameters with other values than the scheme's defaults: name and value.
    fn changed(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Makes the scheme. Errors: a parameter is out of range, or the environment lacks something.
    fn build(&self, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError>;
}

/// A factory from a name and a function: the shortest way to run a scheme of one's own.
pub fn factory(
    name: &str,
    build: impl Fn(&Environment) -> Result<Box<dyn Scheme>, SchemeError> + Send + Sync + 'static,
) -> Arc<dyn SchemeFactory> {
    Arc::new(FromFunction { name: name.to_owned(), build })
}

struct FromFunction<F> {
    name: String,
    build: F,
}

impl<F> fmt::Debug for FromFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F> SchemeFactory for FromFunction<F>
where
    F: Fn(&Environment) -> Result<Box<dyn Scheme>, SchemeError> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn build(&self, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        (self.build)(environment)
    }
}

/// The parameters of one kind of scheme. [`Configured::own`](crate::Configured::own) makes a scheme of them that is in no
/// registry.
pub trait Parameters: Clone + Default + fmt::Debug + Send + Sync + 'static {
    /// All that can be set by name.
    const LIST: &'static [Parameter<Self>];

    /// Whole sets of values by name, such as those of a published implementation.
    fn readings() -> Vec<(&'static str, Self)> {
        Vec::new()
    }

    /// As [`SchemeFactory::reads_addresses`].
    fn reads_addresses(&self, _superblock_pages: u32) -> bool {
        false
    }

    /// As [`SchemeFactory::bytes_for`].
    fn bytes_for(&self, _pages: u64) -> u64 {
        0
    }

    /// Makes the scheme. Errors call it `scheme`: several names may have schemes of one kind, each with its own defaults.
    fn build(&self, scheme: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError>;
}

/// One parameter of `P`; see [`parameter!`](crate::parameter!).
pub struct Parameter<P: 'static> {
    /// Name, such as `chunk_pages` or `mapper.drift_pages`.
    pub name: &'static str,
    /// Unit or choices.
    pub unit: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Where it, or its default, comes from.
    pub source: &'static str,
    /// Its value as text.
    pub get: fn(&P) -> String,
    /// Sets it from a text; the error says what was expected.
    pub set: fn(&mut P, &str) -> Result<(), String>,
}

/// A parameter as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Unit or choices.
    pub unit: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Where it, or its default, comes from.
    pub source: &'static str,
}

/// Declares a parameter of a struct: `parameter!(MqParams, chunk_pages, "pages", "what it means", "source")`.
#[macro_export]
macro_rules! parameter {
    ($params:ty, $($field:ident).+, $unit:expr, $about:expr, $source:expr) => {
        $crate::parameter::Parameter::<$params> {
            name: $crate::parameter!(@name $($field).+),
            unit: $unit,
            about: $about,
            source: $source,
            get: |params| $crate::parameter::Value::show(&params.$($field).+),
            set: |params, text| {
                params.$($field).+ = $crate::parameter::Value::read(text)?;
                Ok(())
            },
        }
    };
    (@name $first:ident $(. $rest:ident)*) => { concat!(stringify!($first) $(, ".", stringify!($rest))*) };
}

/// A value of a parameter.
pub trait Value: Sized {
    /// From a text; the error says what was expected.
    fn read(text: &str) -> Result<Self, String>;

    /// As [`Value::read`] takes it.
    fn show(&self) -> String;
}

macro_rules! numbers {
    ($($number:ty, $expected:expr;)*) => {
        $(impl Value for $number {
            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| $expected.to_string())
            }

            fn show(&self) -> String {
                self.to_string()
            }
        })*
    };
}

numbers! {
    u8, "a whole number from 0 to 255";
    u32, "a whole number from 0 to 4294967295";
    usize, "a whole number, 0 or more";
    f64, "a number";
    bool, "true or false";
}

/// Sizes may have a unit.
impl Value for u64 {
    fn read(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().or_else(|| size(text).ok());
        number.ok_or_else(|| "a whole number from 0 to 18446744073709551615, such as 4096 or 16K".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// `none` where nothing is given.
impl<T: Value> Value for Option<T> {
    fn read(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(None);
        }
        T::read(text).map(Some).map_err(|expected| format!("{expected}, or none"))
    }

    fn show(&self) -> String {
        self.as_ref().map_or("none".to_owned(), T::show)
    }
}

impl Value for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

/// Texts separated by commas.
impl Value for Vec<String> {
    fn read(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(parts.map(str::to_owned).collect())
    }

    fn show(&self) -> String {
        self.join(",")
    }
}

/// Gives the variants of an enum their names ([`named!`]), also as values, and the enum a `CHOICES` that lists them: the unit
/// of its [`parameter!`](crate::parameter!).
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Order {
///     Oldest,
///     Newest,
/// }
/// pcstream_placement::choices!(Order: Oldest = "oldest", Newest = "newest");
///
/// use pcstream_placement::parameter::Value as _;
/// assert_eq!(Order::read("newest"), Ok(Order::Newest));
/// assert_eq!(Order::CHOICES, "oldest, newest");
/// ```
#[macro_export]
macro_rules! choices {
    ($type:ident: $first:ident = $first_name:literal $(, $variant:ident = $name:literal)* $(,)?) => {
        $crate::parameter::named!($type: $first = $first_name $(, $variant = $name)*);

        impl $type {
            /// The names of all choices.
            pub const CHOICES: &'static str = concat!($first_name $(, ", ", $name)*);
        }

        impl $crate::parameter::Value for $type {
            fn read(text: &str) -> Result<Self, String> {
                Self::from_name(text).ok_or_else(|| format!("one of {}", Self::CHOICES))
            }

            fn show(&self) -> String {
                self.name().to_owned()
            }
        }
    };
}

/// The parameters of a scheme whose kind is not known at compile time.
pub(crate) trait AnyParameters: fmt::Debug + Send + Sync {
    fn list(&self) -> Vec<ParameterInfo>;
    fn set(&mut self, scheme: &str, name: &str, text: &str) -> Result<(), SchemeError>;
    fn reads_addresses(&self, superblock_pages: u32) -> bool;
    fn bytes_for(&self, pages: u64) -> u64;
    fn build(&self, scheme: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError>;
    fn readings(&self) -> Vec<&'static str>;
    fn read_as(&mut self, reading: &str) -> bool;
    fn clone_box(&self) -> Box<dyn AnyParameters>;
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<P: Parameters> AnyParameters for P {
    fn list(&self) -> Vec<ParameterInfo> {
        let info = |p: &Parameter<P>| ParameterInfo {
            name: p.name,
            value: (p.get)(self),
            unit: p.unit,
            about: p.about,
            source: p.source,
        };
        P::LIST.iter().map(info).collect()
    }

    fn set(&mut self, scheme: &str, name: &str, text: &str) -> Result<(), SchemeError> {
        let names = || P::LIST.iter().map(|parameter| parameter.name);
        let parameter = P::LIST.iter().find(|parameter| parameter.name == name);
        let parameter = parameter.ok_or_else(|| SchemeError::UnknownParameter {
            scheme: scheme.to_owned(),
            name: name.to_owned(),
            nearest: nearest(name, names()),
            known: names().collect(),
        })?;
        (parameter.set)(self, text).map_err(|expected| SchemeError::Value {
            scheme: scheme.to_owned(),
            parameter: parameter.name,
            found: text.to_owned(),
            expected,
        })
    }

    fn reads_addresses(&self, superblock_pages: u32) -> bool {
        Parameters::reads_addresses(self, superblock_pages)
    }

    fn bytes_for(&self, pages: u64) -> u64 {
        Parameters::bytes_for(self, pages)
    }

    fn build(&self, scheme: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        Parameters::build(self, scheme, environment)
    }

    fn readings(&self) -> Vec<&'static str> {
        P::readings().into_iter().map(|(name, _)| name).collect()
    }

    fn read_as(&mut self, reading: &str) -> bool {
        let found = P::readings().into_iter().find(|(name, _)| *name == reading);
        found.map(|(_, params)| *self = params).is_some()
    }

    fn clone_box(&self) -> Box<dyn AnyParameters> {
        Box::new(self.clone())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Clone for Box<dyn AnyParameters> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::device;

    #[test]
    fn a_device_has_a_stream() {
        assert_eq!(Environment::new(0).err(), Some(SchemeError::NoStreams));
        assert_eq!(Environment::new(1).map(|device| device.streams()), Ok(1));
    }

    #[test]
    fn streams_are_limited_by_the_spare_superblocks() {
        let room = |spare_superblocks, open_per_stream, open_shared| Environment {
            room: Some(Room { spare_superblocks, open_per_stream, open_shared }),
            ..device(9)
        };
        let within = |environment: Environment| environment.streams_within(0.2);
        assert_eq!([within(room(39, 1, 0)), within(room(39, 2, 0)), within(room(39, 1, 1))], [7, 3, 6]);
        assert_eq!([within(room(1000, 2, 0)), within(room(4, 2, 0)), within(room(0, 1, 1))], [9, 1, 1]);
        assert_eq!([within(room(18, 2, 0)), within(room(17, 2, 0))], [3, 1], "two separate nothing");
        assert_eq!(within(device(9)), 9);
        assert_eq!(room(4, 2, 0).streams_within(1.0), 9);
    }
}
