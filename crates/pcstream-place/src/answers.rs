//! The table of answers to programs that ask for streams (`libpcstream/answers.h`), handed to whoever wants it.
//!
//! Idea: a program that is not root cannot open a BPF map, but it can map one whose descriptor it is sent. So it connects to a
//! socket in `/run/pcstream`, is sent the descriptor, and that is all. The map is frozen: nobody can write to it. What is in the table is no secret:
//! numbers that look random, with streams.
//!
//! Invariants: nobody is waited for, and nothing that somebody sends is read. The socket ends with its [`Answers`]; what a killed
//! placer leaves answers nobody, and the next one on the device removes it.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pcstream_ublk::link::send_descriptor;
use rustix::net::{Shutdown, shutdown};

/// After a connection that could not be taken: too many files are open.
const PAUSE: Duration = Duration::from_millis(50);

/// Hands the table over, until it is dropped.
#[derive(Debug)]
pub struct Answers {
    path: PathBuf,
    listener: UnixListener,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    /// Hands `table` to everybody who connects to a socket at `path`, which nobody else uses. Errors: it cannot be made.
    pub fn offer(path: &Path, table: OwnedFd) -> io::Result<Answers> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
        let ending = Arc::new(AtomicBool::new(false));
        let (taking, until) = (listener.try_clone()?, ending.clone());
        let thread = std::thread::Builder::new().name("answers".to_owned());
        let thread = thread.spawn(move || {
            while !until.load(Ordering::Relaxed) {
                match taking.accept() {
                    // Whoever went away again needs nothing.
                    Ok((program, _)) => _ = send_descriptor(&program, table.as_fd()),
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        })?;
        Ok(Answers { path: path.to_owned(), listener, ending, thread: Some(thread) })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        // Ends the wait for connections.
        let _ = shutdown(&self.listener, Shutdown::Both);
        let _ = std::fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{IoSliceMut, Read as _, Seek as _, Write as _};
    use std::mem::MaybeUninit;
    use std::os::unix::net::UnixStream;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    /// The descriptor that is sent; `None`: the connection ends.
    fn received(path: &Path) -> Option<File> {
        let from = UnixStream::connect(path).expect("it listens");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(&from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
        control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next().map(File::from),
            _ => None,
        })
    }

    #[test]
    fn everybody_is_sent_the_table_until_it_ends() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.sock");
        // Left by one that was killed.
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(UnixStream::connect(&path).is_err());
        let mut table = tempfile::tempfile().expect("a file");
        table.write_all(b"answers").expect("written");
        let answers = Answers::offer(&path, table.into()).expect("offered");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o666);
        for _ in 0..3 {
            let mut file = received(&path).expect("it is sent");
            file.rewind().expect("a file");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("it reads");
            assert_eq!(text, "answers");
        }
        // One that asks and goes away does no harm.
        drop(UnixStream::connect(&path).expect("it listens"));
        drop(answers);
        assert!(!path.exists());
        std::fs::create_dir(dir.path().join("d")).expect("made");
        assert!(Answers::offer(&dir.path().join("d"), tempfile::tempfile().expect("a file").into()).is_err());
    }
}
