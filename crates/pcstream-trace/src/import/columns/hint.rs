//! What a program asked for, as cells say it.

use super::super::cells::{BadLine, scaled_decimal};
use crate::event::Life;

/// What the kernel's names of hints begin with.
const HINT_PREFIX: &str = "RWH_WRITE_LIFE_";

/// The lifetime hint that a cell names, in a name or the number of the kernel's `enum rw_hint`; none if it is empty.
pub(super) fn life(text: &str) -> Result<Life, BadLine> {
    if text.is_empty() {
        return Ok(Life::NotSet);
    }
    let named = |life: &Life| {
        let name = text
            .split_at_checked(HINT_PREFIX.len())
            .filter(|(head, _)| head.eq_ignore_ascii_case(HINT_PREFIX));
        life.name().eq_ignore_ascii_case(name.map_or(text, |(_, name)| name))
    };
    let number = || scaled_decimal("hint", text, 1).ok().and_then(|number| usize::try_from(number).ok());
    let found = Life::ALL.into_iter().find(named).or_else(|| Life::ALL.get(number()?).copied());
    found.ok_or_else(|| {
        let names = Life::ALL.map(Life::name).join(", ");
        let expected = format!(
            "{names}, or their numbers from 0 to {}, or nothing; write streams are for the role stream",
            Life::ALL.len() - 1
        );
        BadLine::column("hint", text, expected)
    })
}

/// The write stream that a cell names; none if it is empty.
pub(super) fn stream(text: &str) -> Result<u8, BadLine> {
    let number = if text.is_empty() { Ok(0) } else { scaled_decimal("stream", text, 1) };
    let number = number.ok().and_then(|number| u8::try_from(number).ok());
    number.ok_or_else(|| {
        let expected =
            "a whole number from 1 to 255, or 0 or nothing for none; names are for the role context";
        BadLine::column("stream", text, expected)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_the_kernels_names_or_numbers() {
        let lives = |cells: [&str; 6]| cells.map(|cell| life(cell).expect(cell));
        assert_eq!(lives(["0", "1", "2", "3", "4", "5"]), Life::ALL);
        assert_eq!(lives(["NOT_SET", "NONE", "SHORT", "MEDIUM", "LONG", "EXTREME"]), Life::ALL);
        assert_eq!(lives(["", "none", "2.0", "rwh_write_life_medium", "Long", "extreme"]), Life::ALL);
        assert!(
            ["6", "-1", "RWH_WRITE_LIFE_2", "RWH_WRITE_LIFE_", "2.5"].iter().all(|cell| life(cell).is_err())
        );
    }
}
