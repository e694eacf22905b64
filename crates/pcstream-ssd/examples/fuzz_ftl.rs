//! Differential fuzzing of the FTL against the reference for as long as you like:
//! `cargo run --release -p pcstream-ssd --example fuzz_ftl --features reference -- SEED OPERATIONS`

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).map_while(|a| a.parse().ok()).collect();
    let &[seed, operations] = arguments.as_slice() else {
        eprintln!("usage: fuzz_ftl SEED OPERATIONS (two numbers)");
        std::process::exit(2);
    };
    println!("seed {seed}, {operations} operations");
    println!("{:?}", common::fuzz(seed, operations, 1000));
}
