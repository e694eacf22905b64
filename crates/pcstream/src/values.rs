//! Values of flags: sizes, shares, lists. Each parser says what it expected; clap puts the flag and the
//! value in front.

use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use pcstream_place::sinks;
use pcstream_placement::SchemeError;
use pcstream_ssd::{GcDestination, MAX_OVERPROVISIONING, UnknownName, VictimPolicy, Watermarks, profile};
use pcstream_trace::import::{self, Format};

/// What is written before counting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefill {
    /// The extents that the trace says were filled before it began.
    Trace,
    /// This share of the address space, from its beginning on.
    Fraction(f64),
}

impl Prefill {
    /// The share of the address space, if it is given.
    pub fn share(self) -> Option<f64> {
        match self {
            Prefill::Trace => None,
            Prefill::Fraction(share) => Some(share),
        }
    }
}

impl FromStr for Prefill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "trace" => Ok(Prefill::Trace),
            _ => fraction(text).map(Prefill::Fraction).map_err(|e| format!("{e}, or 'trace'")),
        }
    }
}

/// Every scheme.
const ALL: &str = "all";
/// The reading that stands for the best of all.
pub const BEST: &str = ":best";

/// Schemes to compare, as `NAME`, `NAME:READING` or `NAME:best`; each is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schemes(pub Vec<String>);

impl FromStr for Schemes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == ALL {
            return Ok(Schemes(pcstream_placement::names().map(str::to_owned).collect()));
        }
        if text.split(',').any(|name| name.trim() == ALL) {
            return Err("'all' stands alone: it has every scheme".to_owned());
        }
        let mut names = Vec::new();
        for name in text.split(',').map(str::trim) {
            let readings = match name.strip_suffix(BEST) {
                Some(scheme) => pcstream_placement::find(scheme).map_err(|e| e.to_string())?.readings(),
                None => Vec::new(),
            };
            if readings.is_empty() {
                pcstream_placement::configure(name).map_err(|e| e.to_string())?;
            }
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(Schemes(names))
    }
}

/// One scheme: `NAME` or `NAME:READING`.
pub fn one_scheme(text: &str) -> Result<Schemes, SchemeError> {
    pcstream_placement::configure(text).map(|_| Schemes(vec![text.to_owned()]))
}

/// The name of one scheme, or of a reading of it.
pub fn scheme_name(text: &str) -> Result<String, SchemeError> {
    pcstream_placement::configure(text).map(|_| text.to_owned())
}

/// The name of a sink, or `auto`.
pub fn sink(text: &str) -> Result<String, String> {
    let is_known = text == "auto" || sinks::names().contains(&text);
    if is_known { Ok(text.to_owned()) } else { Err(sinks::unknown(text)) }
}

/// A parameter of a scheme and its value, still as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As given.
    pub text: String,
    /// The scheme's name.
    pub scheme: String,
    /// The parameter's name.
    pub parameter: String,
    /// The value.
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(name, value)| Some((name.split_once('.')?, value)));
        let ((scheme, parameter), value) = parts.ok_or_else(|| {
            "expected SCHEME.PARAMETER=VALUE, such as pcstream.mapper.distance=log".to_owned()
        })?;
        let owned = |part: &str| part.trim().to_owned();
        Ok(Setting {
            text: text.to_owned(),
            scheme: owned(scheme),
            parameter: owned(parameter),
            value: owned(value),
        })
    }
}

/// A GC destination.
pub fn destination(text: &str) -> Result<GcDestination, String> {
    text.parse().map_err(|unknown: UnknownName| {
        let names = GcDestination::ALL.map(GcDestination::name);
        format!("expected {}{}", unknown.expected, did_you_mean(text, &names))
    })
}

/// A victim policy: `NAME` or `NAME:PARAMETER`.
pub fn victim(text: &str) -> Result<VictimPolicy, String> {
    text.parse().map_err(|unknown: UnknownName| {
        let name = text.split(':').next().unwrap_or(text);
        format!("expected one of {}{}", unknown.expected, did_you_mean(name, &VictimPolicy::names()))
    })
}

/// Relative sizes of pools.
#[derive(Clone, Debug, PartialEq)]
pub struct Pools(pub Vec<f64>);

/// Positive numbers, separated by commas.
pub fn pools(text: &str) -> Result<Pools, String> {
    let size = |part: &str| part.trim().parse::<f64>().ok().filter(|size| *size > 0.0 && size.is_finite());
    let sizes: Option<Vec<f64>> = text.split(',').map(size).collect();
    sizes.map(Pools).ok_or_else(|| "expected positive sizes separated by commas, such as 1,3".to_owned())
}

/// `LOW:HIGH` free superblocks.
pub fn watermarks(text: &str) -> Result<Watermarks, String> {
    let numbers = text.split_once(':').and_then(|(low, high)| low.parse().ok().zip(high.parse().ok()));
    let found = numbers.filter(|&(low, high)| 2 <= low && low <= high);
    found
        .map(|(low, high)| Watermarks { low, high })
        .ok_or_else(|| "expected LOW:HIGH free superblocks with 2 <= LOW <= HIGH, such as 4:8".to_owned())
}

/// The name of a profile.
pub fn profile(text: &str) -> Result<&'static str, String> {
    let found = profile::KNOWN.iter().map(|known| known.name).find(|name| *name == text);
    found.ok_or_else(|| one_of(text, profile::KNOWN.iter().map(|known| known.name)))
}

/// The name of a format of block traces.
pub fn format(text: &str) -> Result<&'static Format, String> {
    import::find(text).ok_or_else(|| one_of(text, import::FORMATS.iter().map(|known| known.name)))
}

/// What is expected instead of `found`.
fn one_of<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    format!("expected one of {}{}", names.join(", "), did_you_mean(found, &names))
}

/// `; did you mean X?` for the name most like `found`; nothing if none is.
pub fn did_you_mean(found: &str, names: &[&str]) -> String {
    let others = names.iter().copied().filter(|name| *name != found);
    let nearest = pcstream_placement::nearest(found, others);
    nearest.first().map_or(String::new(), |name| format!("; did you mean {name}?"))
}

/// As [`pcstream_placement::size`] has it, at least 1.
pub fn size(text: &str) -> Result<u64, String> {
    match pcstream_placement::size(text)? {
        0 => Err("expected at least 1".to_owned()),
        size => Ok(size),
    }
}

/// A size that fits in 32 bits.
pub fn size_u32(text: &str) -> Result<u32, String> {
    let value = size(text)?;
    u32::try_from(value).map_err(|_| format!("expected at most {}", u32::MAX))
}

/// Reads a whole number from `least` to `most`.
pub fn within<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| whole(text, least, most)
}

/// A whole number within a range; `least` to `most` are named where it is not.
fn whole<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, String> {
    let number = text.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
    let converted = number.and_then(|number| T::try_from(number).ok());
    converted.ok_or_else(|| {
        let range =
            if most == u64::MAX { format!(", {least} or more") } else { format!(" from {least} to {most}") };
        format!("expected a whole number{range}, such as {}", least.max(8))
    })
}

/// Requests outstanding at any time.
pub fn queue_depth(text: &str) -> Result<u32, String> {
    whole(text, 1, 65_536)
}

/// A process. What prints the number of one that does not run prints 0 or nothing.
pub fn pid(text: &str) -> Result<u32, String> {
    whole(text, 1, u64::from(u32::MAX)).map_err(|expected| match text {
        "" | "0" => format!("{expected}; does the program run?"),
        _ => expected,
    })
}

/// Streams of a device, S0 included.
pub fn streams(text: &str) -> Result<u8, String> {
    whole(text, 1, 255)
}

/// A seed, or another number without a meaning of its own.
pub fn number(text: &str) -> Result<u64, String> {
    whole(text, 0, u64::MAX)
}

/// One of the pages that are written, counted from 1.
pub fn page_number(text: &str) -> Result<u64, String> {
    whole(text, 1, u64::MAX)
}

/// Lifetimes that differ by no more than this factor are alike.
pub fn factor(text: &str) -> Result<f64, String> {
    real(text, 1.0.., "a factor between lifetimes, 1 or more, such as 2")
}

/// Rows of a table.
pub fn rows(text: &str) -> Result<usize, String> {
    whole(text, 0, u64::from(u32::MAX))
}

/// One of `all`, by the name that `shown` says.
pub fn named<T: Clone + Send + Sync + 'static>(
    all: impl IntoIterator<Item = T>,
    shown: impl Fn(T) -> PossibleValue,
) -> impl TypedValueParser<Value = T> {
    let all: Vec<(PossibleValue, T)> = all.into_iter().map(|value| (shown(value.clone()), value)).collect();
    PossibleValuesParser::new(all.iter().map(|(name, _)| name.clone())).map(move |name| {
        let found = all.iter().find(|(known, _)| known.get_name() == name);
        found.expect("the parser takes these names").1.clone()
    })
}

/// A file that is no standard output: `-` would make a file of that name.
pub fn named_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("it goes to a file only: give it a name, or ./- for a file called so"),
        false => Ok(path),
    })
}

/// A number that may have a fraction.
pub fn decimal(text: &str) -> Result<f64, String> {
    real(text, .., "a number, such as 0.9")
}

/// A finite number within a range; `expected` is named where it is not.
fn real(text: &str, range: impl RangeBounds<f64>, expected: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && range.contains(value));
    value.ok_or_else(|| format!("expected {expected}"))
}

/// A time above 0: a number of `us`, `ms`, `s` (the default), `m` or `h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "us" => 0.000_001,
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = number.parse().ok().map(|n: f64| n * unit).filter(|seconds| *seconds > 0.0);
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
        "expected a number above 0 with us, ms, s, m or h, such as 60s; alone it is in seconds".to_owned()
    })
}

/// A share from 0 to 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    real(text, 0.0..=1.0, "a number from 0 to 1, such as 0.9")
}

/// Whether something is done.
pub fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

/// A share from 0, below 1.
pub fn share_below_1(text: &str) -> Result<f64, String> {
    real(text, 0.0..1.0, "a number from 0, below 1, such as 0.9")
}

/// A share above 0, at most 1.
pub fn positive_share(text: &str) -> Result<f64, String> {
    real(text, (Bound::Excluded(0.0), Bound::Included(1.0)), "a number above 0, at most 1, such as 0.9")
}

/// A spare factor: at least 0 and below 1.
pub fn spare_factor(text: &str) -> Result<f64, String> {
    real(text, 0.0..1.0, "Sf = (T-U)/T, at least 0 and below 1, such as 0.125")
}

/// An overprovisioning: from 0 to 2. More is a percentage.
pub fn overprovisioning(text: &str) -> Result<f64, String> {
    real(text, 0.0..=MAX_OVERPROVISIONING, "OP = (T-U)/U as a fraction from 0 to 2, such as 0.14 for 14 %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let good = [("60s", 60_000), ("60", 60_000), ("1.5m", 90_000), ("250ms", 250), ("2h", 7_200_000)];
        for (text, ms) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "s", "0s", "-1s", "5 s", "5d", "inf", "nan", "1e300h"] {
            assert!(
                duration(bad).is_err_and(|error| error.contains("such as 60s; alone it is in seconds")),
                "{bad}"
            );
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("4K"), Ok(4096));
        ["0", "0K", "0.0GB"].iter().for_each(|text| assert!(size(text).unwrap_err().contains("at least 1")));
        assert!(size("12Q").unwrap_err().contains("such as 512M"));
        assert!(size_u32("4G").unwrap_err().contains("at most"));
    }

    #[test]
    fn pages_are_counted_from_1() {
        assert_eq!(page_number("1"), Ok(1));
        for bad in ["0", "-1", "", "many"] {
            assert!(page_number(bad).unwrap_err().contains("1 or more"), "{bad}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!("trace".parse(), Ok(Prefill::Trace));
        assert_eq!("0.9".parse(), Ok(Prefill::Fraction(0.9)));
        for bad in ["1.1", "-0.1", "nan", "inf", "90%", "", "Trace"] {
            assert!(bad.parse::<Prefill>().unwrap_err().contains("or 'trace'"), "{bad}");
        }
        assert!(spare_factor("1").is_err() && spare_factor("nan").is_err() && spare_factor("0").is_ok());
        assert!(overprovisioning("inf").is_err() && overprovisioning("2").is_ok());
        for percentage in ["7", "28", "28%"] {
            assert!(overprovisioning(percentage).unwrap_err().contains("0.14 for 14 %"));
        }
    }

    #[test]
    fn numbers_say_what_one_looks_like() {
        assert_eq!(
            (streams("9"), number("0"), rows("10"), decimal("-0.5")),
            (Ok(9), Ok(0), Ok(10), Ok(-0.5))
        );
        for bad in ["", "0", "256", "x", "-1", "1.5"] {
            let error = streams(bad).unwrap_err();
            assert!(error.contains("a whole number from 1 to 255"), "{error}");
        }
        assert!(within::<u32>(1, 65_536)("0").unwrap_err().contains("from 1 to 65536"));
        assert!(decimal("x").unwrap_err().contains("such as 0.9") && decimal("nan").is_err());
    }

    #[test]
    fn lists() {
        let Schemes(all) = "all".parse().unwrap();
        assert!("baseline, all".parse::<Schemes>().unwrap_err().contains("'all' stands alone"));
        assert!(["baseline", "oracle"].iter().all(|name| all.iter().any(|known| known == name)));
        let schemes = |names: &[&str]| Ok(Schemes(names.iter().map(|name| (*name).to_owned()).collect()));
        assert_eq!("pcstream,baseline,pcstream".parse(), schemes(&["pcstream", "baseline"]));
        let readings = ["autostream-mq:sepbit", "autostream-mq:best"];
        assert_eq!(readings.join(", ").parse(), schemes(&readings));
        let refused = |text: &str| text.parse::<Schemes>().unwrap_err().to_string();
        assert!(refused("autostream-mq:bdbm").contains("sepbit, keeping"));
        assert!(refused("baseline:best").contains("'baseline' has no reading 'best'; it has none"));
        let setting: Setting = "pcstream.mapper.distance=log".parse().unwrap();
        assert_eq!(
            (setting.scheme.as_str(), setting.parameter.as_str(), setting.value.as_str()),
            ("pcstream", "mapper.distance", "log")
        );
        for wrong in ["pcstream", "pcstream.x", "x=1", "pcstream=a.b"] {
            assert!(wrong.parse::<Setting>().unwrap_err().contains("SCHEME.PARAMETER=VALUE"), "{wrong}");
        }
        assert!("pcstrem".parse::<Schemes>().unwrap_err().to_string().contains("did you mean pcstream"));
        assert!("".parse::<Schemes>().is_err());
        assert_eq!(destination("own"), Ok(GcDestination::Own));
        assert!(destination("intern").unwrap_err().ends_with("did you mean internal?"));
    }

    #[test]
    fn pools_and_watermarks() {
        assert_eq!(pools("1, 2.5"), Ok(Pools(vec![1.0, 2.5])));
        for bad in ["", "1,", "0,1", "-1", "nan", "inf", "1;2"] {
            assert!(pools(bad).unwrap_err().contains("such as"), "{bad}");
        }
        assert_eq!(watermarks("2:5"), Ok(Watermarks { low: 2, high: 5 }));
        for bad in ["", "2", "1:5", "5:2", "2:x", "-1:3", "2:5:7"] {
            assert!(watermarks(bad).unwrap_err().contains("LOW:HIGH"), "{bad}");
        }
    }

    #[test]
    fn profiles() {
        assert_eq!(profile("femu"), Ok("femu"));
        assert!(profile("pm963").unwrap_err().ends_with("did you mean pm963-480g?"));
    }

    #[test]
    fn formats() {
        assert_eq!(format("msr").map(|f| f.name), Ok("msr"));
        assert!(format("blkprse").unwrap_err().ends_with("did you mean blkparse?"));
    }

    #[test]
    fn victims() {
        assert_eq!(victim("d-choices:3").map(|victim| victim.parameter()), Ok(Some(3)));
        assert!(victim("gredy").unwrap_err().ends_with("did you mean greedy?"));
        let out_of_range = victim("d-choices:0").unwrap_err();
        assert!(
            out_of_range.contains("D from 1 to 1000") && !out_of_range.contains("mean"),
            "{out_of_range}"
        );
    }
}
