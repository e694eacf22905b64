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
use std::os::fd::AsFd as _;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
                    Ok((program, _)) => _ = send(&program, table.as_fd()),
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
        // SAFETY: a system call on a descriptor that is open; it ends the wait for connections.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        let _ = std::fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Room for the header of a control message with one descriptor, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends a byte with a descriptor, without waiting.
fn send(to: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = [0u8];
    let mut data = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = Control([0; 32]);
    // SAFETY: plain data, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut data;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    let bytes = size_of::<libc::c_int>() as u32;
    // SAFETY: arithmetic only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as usize;
    assert!(message.msg_controllen <= control.0.len(), "a descriptor fits");
    // SAFETY: the control buffer has room for one header with one descriptor, so the first header is in it, and all that it points
    // to lives until the call returns.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as usize;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(descriptor.as_raw_fd());
        libc::sendmsg(to.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::fd::FromRawFd as _;

    /// The descriptor that is sent; `None`: the connection ends.
    fn received(path: &Path) -> Option<File> {
        let from = UnixStream::connect(path).expect("it listens");
        let mut byte = [0u8];
        let mut data = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = Control([0; 32]);
        // SAFETY: as in `send`; the descriptor that comes is owned by nobody yet.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut data;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = control.0.len();
            if libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) < 1 {
                return None;
            }
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            assert!(!header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS);
            Some(File::from_raw_fd(libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned()))
        }
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
