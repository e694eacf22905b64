//! fstream: the file system's own kinds of data, each in a stream (Rho et al., FAST'18, sections
//! 3.4 and 3.5).
//!
//! Idea: journal, inodes, directories and bitmaps die at rates of their own, whatever the
//! application. Each enabled option is one stream, numbered from S1 in the order of Table 1;
//! everything else goes to S0. The reading `xfs` has what the paper gives XFS: streams for the log, inodes and names.
//!
//! Options that do not fit share the device's last stream.
//!
//! Known weakness: data of applications stays in S0 unless a name or extension is given.

use std::fmt::Display;

use globset::{GlobBuilder, GlobMatcher};
use pcstream_trace::paths::{extension, file_name};
use pcstream_trace::{ById, Event, FileId, Kind, Tables};

use crate::error::{SchemeError, check};
use crate::parameter;
use crate::parameter::{Environment, Parameter, Parameters};
use crate::scheme::{Placement, Scheme, SchemeFact, Stream};

/// Parameters of `fstream`: the paper's mount options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FStreamParams {
    /// journal-stream (ext4), log_stream (XFS).
    pub journal: bool,
    /// inode-stream.
    pub inode: bool,
    /// dir-stream (ext4).
    pub directory: bool,
    /// misc-stream (ext4): bitmaps and group descriptors.
    pub misc: bool,
    /// fname-stream: a stream for each of these file-name globs, e.g. `CommitLog-*`.
    pub names: Vec<String>,
    /// extn-stream: one stream for files with one of these extensions, without the dot.
    pub extensions: Vec<String>,
}

impl Default for FStreamParams {
    fn default() -> Self {
        FStreamParams {
            journal: true,
            inode: true,
            directory: true,
            misc: true,
            names: Vec::new(),
            extensions: Vec::new(),
        }
    }
}

#[rustfmt::skip]
impl Parameters for FStreamParams {
    const LIST: &'static [Parameter<FStreamParams>] = &[
        parameter!(FStreamParams, journal, "true, false", "a stream for the journal (ext4) or log (XFS)", "FAST'18, Table 1: journal-stream, log_stream"),
        parameter!(FStreamParams, inode, "true, false", "a stream for inodes", "FAST'18, Table 1: inode-stream"),
        parameter!(FStreamParams, directory, "true, false", "a stream for directories (ext4)", "FAST'18, Table 1: dir-stream"),
        parameter!(FStreamParams, misc, "true, false", "a stream for bitmaps and group descriptors (ext4)", "FAST'18, Table 1: misc-stream"),
        parameter!(FStreamParams, names, "globs, separated by commas", "a stream for each of these globs of file names", "FAST'18, Table 1: fname-stream"),
        parameter!(FStreamParams, extensions, "extensions, separated by commas", "one stream for files with one of these extensions", "FAST'18, Table 1: extn-stream"),
    ];

    fn readings() -> Vec<(&'static str, FStreamParams)> {
        let default = FStreamParams::default;
        vec![("default", default()), ("xfs", FStreamParams { directory: false, misc: false, ..default() })]
    }

    fn build(
        &self,
        scheme: &'static str,
        environment: &Environment,
    ) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(FStream::new(scheme, environment, self.clone())?))
    }
}

/// A name or an extension that was asked for.
struct Asked {
    text: String,
    /// Whether a file that was written has it.
    found: bool,
}

/// The FStream scheme.
pub struct FStream {
    scheme: &'static str,
    kinds: [Stream; Kind::ALL.len()],
    names: Vec<(Asked, GlobMatcher, Stream)>,
    extensions: Vec<Asked>,
    extension_stream: Stream,
    /// Stream of each file's data, by file id; `None` until its first write.
    files: ById<Option<Stream>>,
    options: u64,
}

impl FStream {
    /// Makes the scheme. Errors call it `scheme`.
    pub fn new(
        scheme: &'static str,
        environment: &Environment,
        params: FStreamParams,
    ) -> Result<FStream, SchemeError> {
        let last = u64::from(environment.streams()) - 1;
        let mut options = 0u64;
        let mut next = || {
            options += 1;
            Stream(options.min(last) as u8)
        };
        let mut kinds = [Stream::DEFAULT; Kind::ALL.len()];
        let switches = [
            (params.journal, Kind::Journal),
            (params.inode, Kind::Inode),
            (params.directory, Kind::Directory),
            (params.misc, Kind::Bitmap),
        ];
        for (_, kind) in switches.into_iter().filter(|(on, _)| *on) {
            kinds[kind as usize] = next();
        }
        let asked = |text: String| Asked { text, found: false };
        let mut names = Vec::new();
        for name in params.names {
            let wrong = |why: &dyn Display| SchemeError::Parameter {
                scheme,
                parameter: "names",
                found: format!("'{name}' ({why})"),
                expected: "a file-name glob such as CommitLog-*",
            };
            if name.contains('/') {
                return Err(wrong(&"a path"));
            }
            let glob = GlobBuilder::new(&name).build().map_err(|e| wrong(e.kind()))?;
            names.push((asked(name), glob.compile_matcher(), next()));
        }
        let extension_stream = if params.extensions.is_empty() { Stream::DEFAULT } else { next() };
        for extension in &params.extensions {
            let (found, expected) = (format!("'{extension}'"), "what follows the last dot, such as db");
            check(!extension.contains(['.', '/']), scheme, "extensions", found, expected)?;
        }
        let extensions = params.extensions.into_iter().map(asked).collect();
        Ok(FStream { scheme, kinds, names, extensions, extension_stream, files: ById::default(), options })
    }

    fn stream_of_file(&mut self, id: FileId, tables: &Tables) -> Stream {
        if self.names.is_empty() && self.extensions.is_empty() {
            return Stream::DEFAULT;
        }
        if let Some(Some(stream)) = self.files.get(id.0 as usize) {
            return *stream;
        }
        let Some(file) = tables.file(id) else { return Stream::DEFAULT };
        let name = file_name(&file.path);
        let named = self.names.iter_mut().find(|(_, glob, _)| glob.is_match(name));
        let stream = if let Some((asked, _, stream)) = named {
            asked.found = true;
            *stream
        } else {
            let extension = extension(&file.path);
            let asked = self.extensions.iter_mut().find(|asked| Some(asked.text.as_str()) == extension);
            asked.map_or(Stream::DEFAULT, |asked| {
                asked.found = true;
                self.extension_stream
            })
        };
        *self.files.at(id.0 as usize) = Some(stream);
        stream
    }
}

impl Scheme for FStream {
    fn place(&mut self, event: &Event, _: u64, tables: &Tables, out: &mut Vec<Placement>) {
        let stream = match event.kind {
            Kind::Data => self.stream_of_file(event.file, tables),
            kind => self.kinds[kind as usize],
        };
        out.push(Placement { pages: event.pages, stream });
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![("options", self.options)]
    }

    fn remarks(&self) -> Vec<String> {
        let names = self.names.iter().map(|(asked, ..)| (asked, "names"));
        let all = names.chain(self.extensions.iter().map(|asked| (asked, "extensions")));
        all.filter(|(asked, _)| !asked.found)
            .map(|(Asked { text, .. }, parameter)| {
                format!("{}.{parameter}: '{text}' matched no file that was written", self.scheme)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Value;
    use crate::testing::{device, tables, write};

    fn streams(streams: u8, params: FStreamParams) -> Vec<u8> {
        let tables = tables(&[], &["/db/CommitLog-7-1.log", "/films/a.mkv", "/notes"]);
        let mut scheme = FStream::new("fstream", &device(streams), params).expect("valid");
        let mut out = Vec::new();
        for kind in Kind::ALL {
            scheme.place(&Event { kind, ..write(0, 1) }, 0, &tables, &mut out);
        }
        for file in [1, 2, 3, 1] {
            scheme.place(&Event { file: FileId(file), ..write(0, 1) }, 0, &tables, &mut out);
        }
        out.iter().map(|p| p.stream.0).collect()
    }

    #[test]
    fn kinds_names_and_extensions_by_hand() {
        let default = FStreamParams::default;
        // data, journal, inode, directory, bitmap, other; then the four files
        assert_eq!(streams(9, default()), [0, 1, 2, 3, 4, 0, 0, 0, 0, 0]);
        let xfs =
            crate::configure("fstream:xfs").expect("a reading").params_mut().cloned().expect("fstream's");
        assert_eq!(streams(9, xfs), [0, 1, 2, 0, 0, 0, 0, 0, 0, 0]);
        let all = FStreamParams {
            names: vec!["CommitLog-*".into(), "x".into()],
            extensions: vec!["mp4".into(), "mkv".into()],
            ..default()
        };
        assert_eq!(streams(9, all.clone()), [0, 1, 2, 3, 4, 0, 5, 7, 0, 5]);
        assert_eq!(streams(4, all.clone()), [0, 1, 2, 3, 3, 0, 3, 3, 0, 3], "what does not fit shares");
        assert_eq!(streams(1, all), [0; 10]);
    }

    /// The command line's spelling of names, and of extensions.
    fn of(names: &str, extensions: &str) -> FStreamParams {
        let list = |text| Value::read(text).expect("texts");
        FStreamParams { names: list(names), extensions: list(extensions), ..Default::default() }
    }

    #[test]
    fn what_no_file_can_have_is_refused() {
        for (names, extensions, said) in [
            ("a[", "", "fstream.names is 'a[' ("),
            ("*.log,/db/*.log", "", "fstream.names is '/db/*.log' (a path), but must be a file-name glob"),
            ("", "log,.db", "fstream.extensions is '.db', but must be what follows the last dot"),
            ("", "*.db", "fstream.extensions is '*.db'"),
            ("", "tar.gz", "fstream.extensions is 'tar.gz'"),
        ] {
            let error = FStream::new("fstream", &device(9), of(names, extensions)).err();
            let text = error.expect("refused").to_string();
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn what_no_file_has_is_remarked() {
        let tables = tables(&[], &["/db/CommitLog-7-1.log", "/films/a.mkv"]);
        let params = of("CommitLog-*,commit*,*.log", "mkv,MP4");
        let mut scheme = FStream::new("fstream", &device(9), params).expect("valid");
        for file in [1, 2] {
            scheme.place(&Event { file: FileId(file), ..write(0, 1) }, 0, &tables, &mut Vec::new());
        }
        let missed = [("names", "commit*"), ("names", "*.log"), ("extensions", "MP4")];
        let remarks =
            missed.map(|(what, text)| format!("fstream.{what}: '{text}' matched no file that was written"));
        assert_eq!(scheme.remarks(), remarks, "the first name that fits takes a file");
    }
}
