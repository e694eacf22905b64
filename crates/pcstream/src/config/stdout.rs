//! Flags that exclude each other because both take standard output. Some do so with one value alone, which clap has no
//! rule for.

use clap::{Command, Id};

/// Whether two flags of `contexts` with these values would both be put out on standard output, as in `contexts_view`.
pub fn compete(command: &Command, a: (&Id, &[String]), b: (&Id, &[String])) -> bool {
    let names = [a.0.as_str(), b.0.as_str()];
    // Groups are in JSON, and can be printed as CSV.
    let together = names.contains(&"by") && (names.contains(&"json") || names.contains(&"csv"));
    command.get_name() == "contexts" && a.0 != b.0 && !together && takes(a) && takes(b)
}

fn takes((flag, values): (&Id, &[String])) -> bool {
    match flag.as_str() {
        "json" | "folded" => values == ["-"],
        "csv" => values != ["false"],
        "by" => true,
        _ => false,
    }
}
