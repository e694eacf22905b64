//! Values of flags that take several: lists, and ranges of whole numbers.

use crate::values::{number, streams};

/// Several values of a flag; none twice, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

/// Values separated by commas. An error names the one of several that is wrong.
fn list<T: PartialEq>(text: &str, one: impl Fn(&str) -> Result<Vec<T>, String>) -> Result<List<T>, String> {
    let mut values = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        for value in
            one(part).map_err(|error| if part == text { error } else { format!("'{part}': {error}") })?
        {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    Ok(List(values))
}

/// Most values of a range: more runs than anybody waits for.
const MOST_OF_A_RANGE: u64 = 65_536;

/// A whole number, or `FIRST..LAST`, both included.
fn range<T: TryFrom<u64> + Into<u64>>(
    text: &str,
    one: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let Some((first, last)) = text.split_once("..") else { return Ok(vec![one(text)?]) };
    let (first, last) = (one(first.trim())?.into(), one(last.trim())?.into());
    if first > last || last - first >= MOST_OF_A_RANGE {
        return Err(format!("expected FIRST..LAST, ascending, of at most {MOST_OF_A_RANGE} values"));
    }
    Ok((first..=last).filter_map(|value| T::try_from(value).ok()).collect())
}

/// Numbers of streams, S0 included: `1..16`, `2,5,9`.
pub fn stream_list(text: &str) -> Result<List<u8>, String> {
    list(text, |part| range(part, streams))
}

/// Seeds: `1..5`, `1,7`.
pub fn seeds(text: &str) -> Result<List<u64>, String> {
    list(text, |part| range(part, number))
}

/// Reads lists of what `one` reads.
pub fn each<T: PartialEq>(
    one: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<List<T>, String> + Clone {
    move |text| list(text, |part| one(part).map(|value| vec![value]))
}

#[cfg(test)]
mod tests {
    use pcstream_ssd::GcDestination;

    use super::*;
    use crate::values;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(stream_list("1..4"), Ok(List(vec![1, 2, 3, 4])));
        assert_eq!(stream_list("9, 2..3,9"), Ok(List(vec![9, 2, 3])));
        assert_eq!(seeds("18446744073709551614..18446744073709551615").map(|List(l)| l.len()), Ok(2));
        assert_eq!(each(values::spare_factor)(".07,.125"), Ok(List(vec![0.07, 0.125])));
        assert_eq!(each(values::size_u32)("1K"), Ok(List(vec![1024])));
        assert_eq!(each(values::victim)("greedy,d-choices:3").map(|List(l)| l.len()), Ok(2));
        let both = List(vec![GcDestination::Internal, GcDestination::Own]);
        assert_eq!(each(values::destination)("internal, own,internal"), Ok(both));
        assert_eq!(each(values::watermarks)("8:16,4:8").map(|List(l)| l.len()), Ok(2));
        assert_eq!(each(values::profile)("femu,pm963-480g"), Ok(List(vec!["femu", "pm963-480g"])));
        assert!(each(values::profile)("femu,none").unwrap_err().starts_with("'none': "));
        for bad in ["", "1,", "4..1", "0..3", "1..256", "1..", "1..2..3", "x"] {
            assert!(stream_list(bad).is_err(), "{bad}");
        }
        assert!(seeds("0..18446744073709551615").unwrap_err().contains("at most 65536 values"));
        assert!(each(values::fraction)("0.5,1.1").unwrap_err().contains("1.1"));
    }
}
