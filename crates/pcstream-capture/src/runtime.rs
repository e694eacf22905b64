//! Paths of language runtimes (`libpcstream/pcstream_runtime.h`): their names, and the signature that they must have.
//!
//! A traced process can register anything. Its names are believed if the signature that it writes under is that of these names. That
//! keeps accidents apart, not a liar who computes: the hash is no secret.

use crate::signature::{SEED, mix, of_bytes};
use crate::wire::RuntimeRecord;

/// Frames that are believed: the agent sends no more, 32 and the thread's role.
const MAX_FRAMES: usize = 33;

/// A frame in the program's own language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeFrame {
    /// With dots.
    pub class: String,
    /// Of the class.
    pub method: String,
    /// In the method; -1 in native code.
    pub bytecode_index: i64,
}

/// The signature of a path, innermost frame first: the Rust twin of the agent's `java_signature.c`.
pub fn signature_of(frames: &[RuntimeFrame]) -> u64 {
    let hash = frames.iter().fold(SEED, |hash, frame| {
        let hash = mix(hash, of_bytes(frame.class.as_bytes()));
        let hash = mix(hash, of_bytes(frame.method.as_bytes()));
        mix(hash, frame.bytecode_index.cast_unsigned())
    });
    if hash == 0 { 1 } else { hash }
}

/// The frames of a record; `None` if they are not what its signature stands for.
pub fn frames(record: &RuntimeRecord) -> Option<Vec<RuntimeFrame>> {
    let text = record.text.get(..record.bytes as usize)?;
    let lines = std::str::from_utf8(text).ok()?.lines();
    let frames: Option<Vec<_>> = lines.take(MAX_FRAMES + 1).map(frame).collect();
    frames.filter(|frames| frames.len() <= MAX_FRAMES && signature_of(frames) == record.signature)
}

fn frame(line: &str) -> Option<RuntimeFrame> {
    let mut parts = line.split('\t');
    let (class, method, index) = (parts.next()?, parts.next()?, parts.next()?);
    let bytecode_index = index.parse().ok()?;
    parts.next().is_none().then(|| RuntimeFrame {
        class: class.into(),
        method: method.into(),
        bytecode_index,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(signature: u64, text: &str) -> RuntimeRecord {
        let mut record = RuntimeRecord { signature, bytes: text.len() as u32, ..RuntimeRecord::default() };
        record.text[..text.len()].copy_from_slice(text.as_bytes());
        record
    }

    /// The golden values of the agent's own test (`jvm/src/test/native/names.c`).
    #[test]
    fn java_and_rust_make_one_signature_of_one_path() {
        let frame = |class: &str, method: &str, bytecode_index| RuntimeFrame {
            class: class.into(),
            method: method.into(),
            bytecode_index,
        };
        let path = [
            frame("org.example.Log", "append", 17),
            frame("org.example.Store$Flush", "run", 120),
            frame("org.example.Main", "main", -1),
        ];
        assert_eq!(signature_of(&path), 0xfd87_20e4_c142_4817);
        assert_eq!(signature_of(&path[..1]), 0xd31c_9e25_2bcb_6509);
        assert_eq!(signature_of(&[]), SEED);
    }

    #[test]
    fn names_are_believed_with_their_signature_only() {
        let text = "org.A\tflush\t7\norg.B$C\t<init>\t-1\n";
        let named =
            [("org.A", "flush", 7), ("org.B$C", "<init>", -1)].map(|(class, method, bytecode_index)| {
                RuntimeFrame { class: class.into(), method: method.into(), bytecode_index }
            });
        let signature = signature_of(&named);
        assert_eq!(frames(&record(signature, text)), Some(named.to_vec()));
        assert_eq!(frames(&record(signature + 1, text)), None);
        assert_eq!(frames(&record(signature, &text.replace("flush", "fl\tsh"))), None);
        assert_eq!(frames(&record(signature, "")), None);
        let mut long = record(signature, text);
        long.bytes = u32::MAX;
        assert_eq!(frames(&long), None);
        long.bytes = 4096;
        assert_eq!(frames(&long), None, "with zeros behind");
        let many = vec![named[0].clone(); MAX_FRAMES + 1];
        let text = "org.A\tflush\t7\n".repeat(MAX_FRAMES + 1);
        assert_eq!(frames(&record(signature_of(&many), &text)), None);
        assert!(frames(&record(signature_of(&many[1..]), &text["org.A\tflush\t7\n".len()..])).is_some());
    }
}
