//! `pcstream place` as a process of its own: the whole loop of capture, learning and placing.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

use crate::AnyError;

/// A placer that is ready; killed when dropped.
pub struct Placer {
    child: Child,
    said: BufReader<ChildStderr>,
    /// Its table, which begins empty.
    _table: TempDir,
}

impl Placer {
    /// Starts the `pcstream` that lies beside this program, or the one that PCSTREAM names, and waits until it places.
    pub fn start(directory: &Path, sink: &str) -> Result<Placer, AnyError> {
        let own = std::env::current_exe()?;
        let beside = own.parent().map(|target| target.join("pcstream"));
        let program = std::env::var_os("PCSTREAM").map(Into::into).or(beside).ok_or("no program pcstream")?;
        let table = TempDir::new()?;
        let mut command = Command::new(&program);
        command.args(["place", "--sink", sink, "--on"]).arg(directory);
        command.arg("--table").arg(table.path().join("table"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let said = BufReader::new(child.stderr.take().expect("piped"));
        let mut placer = Placer { child, said, _table: table };
        let mut said = String::new();
        while !said.contains("placing writes to") {
            if placer.said.read_line(&mut said)? == 0 {
                return Err(format!("{} place: {}: {said}", program.display(), placer.child.wait()?).into());
            }
        }
        Ok(placer)
    }

    /// Ends it. Errors: it lost something, so the program was not placed as it should be.
    pub fn end(mut self) -> Result<(), AnyError> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let mut rest = String::new();
        self.said.read_to_string(&mut rest)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("pcstream place: {status}: {rest}").into()) }
    }
}

impl Drop for Placer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
