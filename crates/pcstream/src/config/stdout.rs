//! Flags that exclude each other because both take standard output. Some do so with one value alone, which clap has no
//! rule for.

use std::path::Path;

use clap::{Command, Id};

use crate::args::Outputs;

/// Whether two flags of `contexts` with these values would both be put out on standard output.
pub fn compete(command: &Command, a: (&Id, &[String]), b: (&Id, &[String])) -> bool {
    let mut outputs = Outputs::default();
    for (flag, values) in [a, b] {
        let file = values.first().map(Path::new);
        match flag.as_str() {
            "json" => outputs.json = file,
            "folded" => outputs.folded = file,
            "csv" => outputs.csv = values != ["false"],
            "by" => outputs.by = true,
            _ => {}
        }
    }
    command.get_name() == "contexts" && outputs.on_stdout().len() > 1
}
