//! Between a server and whoever gives it streams: a socket for each device, and a map that is handed over by it.
//!
//! Idea: a server says to everybody who connects what it serves. Who sends a BPF map becomes the placer: streams are taken from the
//! map as long as the connection stands. It ends with either process, so none has to learn that the other was killed.
//!
//! The socket is `/run/pcstream/serve-DEVICE.sock`. The greeting is one line, `pcstream-serve 1 DISK STREAMS`; the answer to a map
//! is `ok` or `no: WHY`.
//!
//! Invariants: only clients of the server's own user are accepted. A map cannot shrink, so the server cannot be made to fault; a file is refused.

use std::io::{self, BufRead as _, BufReader, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcstream_system::run_dir::{self, RUN};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::error::UblkError;
use crate::table::StreamTable;

const GREETING: &str = "pcstream-serve 1";
/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Who may be connected at once.
const CLIENTS_MAX: usize = 16;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The device in front, such as `ublkb0`.
    pub device: String,
    /// The disk behind.
    pub disk: String,
    /// Its write streams.
    pub streams: u32,
}

fn socket(run: &Path, device: &str) -> PathBuf {
    run.join(format!("serve-{device}.sock"))
}

fn device_of(socket: &Path) -> Option<String> {
    let name = socket.file_name()?.to_str()?;
    Some(name.strip_prefix("serve-")?.strip_suffix(".sock")?.to_owned())
}

/// Who serves a device; `None`: nobody. Errors: somebody does, who does not say what it is.
pub fn ask(device: &str) -> Option<io::Result<Served>> {
    ask_in(Path::new(RUN), device)
}

fn ask_in(run: &Path, device: &str) -> Option<io::Result<Served>> {
    match connect(run, device) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            None
        }
        answer => Some(answer.map(|(_, served)| served)),
    }
}

/// All devices that are served, in order of names, and those whose server was killed.
pub fn all() -> (Vec<Served>, Vec<String>) {
    all_in(Path::new(RUN))
}

fn all_in(run: &Path) -> (Vec<Served>, Vec<String>) {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| device_of(&entry.path())).collect();
    names.sort();
    let (mut served, mut stale) = (Vec::new(), Vec::new());
    for name in names {
        match connect(run, &name) {
            Ok((_, found)) => served.push(found),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => stale.push(name),
            // It exists, and has no answer just now.
            Err(_) => {}
        }
    }
    (served, stale)
}

/// Whether somebody listens at the socket of a device. That of a server that was killed refuses (`ConnectionRefused`).
pub(crate) fn listens(device: &str) -> io::Result<()> {
    UnixStream::connect(socket(Path::new(RUN), device)).map(drop)
}

/// Forgets the socket of a server that was killed.
pub(crate) fn forget(device: &str) {
    let _ = std::fs::remove_file(socket(Path::new(RUN), device));
}

fn connect(run: &Path, device: &str) -> io::Result<(UnixStream, Served)> {
    let stream = UnixStream::connect(socket(run, device))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(256)).read_line(&mut line)?;
    let other =
        || io::Error::new(io::ErrorKind::InvalidData, "another version of pcstream serves the device");
    let words = line.strip_prefix(GREETING).ok_or_else(other)?;
    let mut words = words.split_whitespace();
    let (disk, streams) = (words.next().ok_or_else(other)?, words.next().ok_or_else(other)?);
    let streams = streams.parse().map_err(|_| other())?;
    Ok((stream, Served { device: device.to_owned(), disk: disk.to_owned(), streams }))
}

/// A placer's connection. When it is dropped, the server writes without streams.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
}

impl Link {
    /// Lets the server of a device take streams from a map.
    pub fn attach(device: &str, map: BorrowedFd<'_>) -> io::Result<Link> {
        Link::attach_in(Path::new(RUN), device, map)
    }

    fn attach_in(run: &Path, device: &str, map: BorrowedFd<'_>) -> io::Result<Link> {
        let (stream, _) = connect(run, device)?;
        send_descriptor(&stream, map)?;
        let mut line = String::new();
        BufReader::new((&stream).take(256)).read_line(&mut line)?;
        match line.trim().strip_prefix("no: ") {
            None if line.trim() == "ok" => {}
            None => return Err(io::Error::other("the server ended")),
            Some(why) => return Err(io::Error::other(why.to_owned())),
        }
        stream.set_nonblocking(true)?;
        Ok(Link { stream })
    }

    /// Whether the server is still there.
    pub fn is_up(&self) -> bool {
        let mut byte = [0];
        matches!((&self.stream).read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// What a client did.
#[derive(Debug)]
pub(crate) enum Received {
    /// It gives streams from now on.
    Attached(StreamTable, u32),
    /// The one that gave streams is gone.
    Detached,
    /// Nothing that matters.
    Nothing,
}

/// The server's side.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    greeting: String,
    clients: Vec<UnixStream>,
    /// Which of them gives streams, and its process.
    placer: Option<(i32, u32)>,
}

impl ControlSocket {
    pub fn open(served: &Served) -> Result<ControlSocket, UblkError> {
        ControlSocket::open_in(Path::new(RUN), served)
    }

    fn open_in(run: &Path, served: &Served) -> Result<ControlSocket, UblkError> {
        let path = socket(run, &served.device);
        let error = |source| UblkError::Socket { path: path.clone(), source };
        run_dir::make(run)?;
        // The device is this process's: whoever left a socket is gone. It has its name once it listens, so that nobody takes it for
        // one whose server was killed.
        let new = path.with_extension("new");
        let _ = std::fs::remove_file(&new);
        let listener = UnixListener::bind(&new).map_err(error)?;
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).map_err(error)?;
        std::fs::rename(&new, &path).map_err(error)?;
        listener.set_nonblocking(true).map_err(error)?;
        let greeting = format!("{GREETING} {} {}\n", served.disk, served.streams);
        Ok(ControlSocket { listener, path, greeting, clients: Vec::with_capacity(CLIENTS_MAX), placer: None })
    }

    /// What to wait for: new clients, and then each client.
    pub fn waits_for(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.clients.iter().map(|client| client.as_fd()))
    }

    /// Somebody wants to connect.
    pub fn greet(&mut self) {
        let Ok((mut client, _)) = self.listener.accept() else { return };
        let own = sockopt::socket_peercred(&client).is_ok_and(|peer| peer.uid.as_raw() == own_user());
        if !own || self.clients.len() == CLIENTS_MAX || client.set_nonblocking(true).is_err() {
            return;
        }
        if client.write_all(self.greeting.as_bytes()).is_ok() {
            self.clients.push(client);
        }
    }

    /// A client sent something, or is gone.
    pub fn receive_from(&mut self, number: usize) -> Received {
        let Some(client) = self.clients.get(number) else { return Received::Nothing };
        let own = client.as_raw_fd();
        let (open, map) = match receive(client) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Received::Nothing,
            Err(_) => (false, None),
        };
        if !open {
            self.clients.swap_remove(number);
            let was_placer = self.placer.take_if(|(placer, _)| *placer == own);
            return was_placer.map_or(Received::Nothing, |_| Received::Detached);
        }
        let Some(map) = map else { return Received::Nothing };
        let table = match self.placer {
            Some((_, process)) => Err(format!("process {process} gives it streams already: stop it first")),
            None => table_of(&map),
        };
        let process =
            sockopt::socket_peercred(client).map_or(0, |peer| peer.pid.as_raw_nonzero().get() as u32);
        let answer = table.as_ref().map_or_else(|why| format!("no: {why}\n"), |_| "ok\n".to_owned());
        let mut client = client;
        match (table, client.write_all(answer.as_bytes())) {
            (Ok(table), Ok(())) => {
                self.placer = Some((own, process));
                Received::Attached(table, process)
            }
            _ => Received::Nothing,
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends a byte with a descriptor, without waiting.
pub fn send_descriptor(to: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a client is still there, and what it sent.
fn receive(client: &UnixStream) -> io::Result<(bool, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(client, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut maps = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((got.bytes > 0, maps.next()))
}

/// The table in a BPF map, and in nothing else: the memory of a file could be taken away.
fn table_of(map: &OwnedFd) -> Result<StreamTable, String> {
    let kind = std::fs::read_link(format!("/proc/self/fd/{}", map.as_raw_fd())).unwrap_or_default();
    if !kind.as_os_str().as_encoded_bytes().ends_with(b"bpf-map") {
        return Err("that is no BPF map".to_owned());
    }
    StreamTable::of_map(map.as_fd()).map_err(|error| format!("cannot share the map: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(run: &Path) -> ControlSocket {
        let served = Served { device: "ublkb7".into(), disk: "nvme0n1".into(), streams: 8 };
        ControlSocket::open_in(run, &served).expect("it is free")
    }

    /// In a directory that only this user can change.
    fn run_directory() -> tempfile::TempDir {
        let run = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(run.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
        run
    }

    /// Lets the socket do the next things that others do, up to `steps`, while `client` runs.
    fn served<T: Send>(
        socket: &mut ControlSocket,
        steps: usize,
        client: impl FnOnce() -> T + Send,
    ) -> (T, Vec<Received>) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        std::thread::scope(|scope| {
            let client = scope.spawn(client);
            let mut received = Vec::new();
            while received.len() < steps {
                // It was over before the socket was looked at: nothing more comes.
                let over = client.is_finished();
                let ready: Vec<_> = {
                    let mut waits: Vec<_> =
                        socket.waits_for().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
                    poll(&mut waits, Some(&LOOK)).expect("waited");
                    waits.iter().map(|wait| !wait.revents().is_empty()).collect()
                };
                if over && !ready.contains(&true) {
                    break;
                }
                for number in (1..ready.len()).rev().filter(|&number| ready[number]) {
                    received.push(socket.receive_from(number - 1));
                }
                if ready[0] {
                    socket.greet();
                }
            }
            (client.join().expect("no panic"), received)
        })
    }

    #[test]
    fn a_server_says_what_it_serves() {
        let run = run_directory();
        let mut socket = socket(run.path());
        let (all, _) = served(&mut socket, 1, || all_in(run.path()));
        let expected = Served { device: "ublkb7".into(), disk: "nvme0n1".into(), streams: 8 };
        assert_eq!(all, (vec![expected], Vec::new()));
        // One that was killed leaves its socket.
        std::fs::rename(&socket.path, run.path().join("kept")).expect("renamed");
        drop(socket);
        std::fs::rename(run.path().join("kept"), run.path().join("serve-ublkb7.sock")).expect("renamed");
        assert_eq!(all_in(run.path()), (Vec::new(), vec!["ublkb7".to_owned()]));
    }

    #[test]
    fn a_server_that_cannot_be_understood_is_one() {
        let run = run_directory();
        assert!(ask_in(run.path(), "ublkb7").is_none());
        let other = UnixListener::bind(run.path().join("serve-ublkb7.sock")).expect("bound");
        let greets = std::thread::spawn(move || {
            let (mut client, _) = other.accept().expect("it connects");
            client.write_all(b"pcstream-serve 9 x\n").expect("it reads");
        });
        let error =
            ask_in(run.path(), "ublkb7").expect("somebody serves it").expect_err("of another version");
        assert!(error.to_string().contains("another version of pcstream"), "{error}");
        greets.join().expect("no panic");
        assert!(ask_in(run.path(), "ublkb7").is_none(), "it was killed");
    }

    #[test]
    fn only_a_map_is_taken() {
        let run = run_directory();
        let mut socket = socket(run.path());
        let file = tempfile::tempfile().expect("a file");
        let attach = || Link::attach_in(run.path(), "ublkb7", file.as_fd()).map(drop);
        let (attached, received) = served(&mut socket, 2, attach);
        assert!(attached.expect_err("no map").to_string().contains("no BPF map"));
        assert!(received.iter().all(|received| matches!(received, Received::Nothing)), "{received:?}");
        let absent = Link::attach_in(run.path(), "ublkb8", file.as_fd()).expect_err("nobody serves it");
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let run = run_directory();
        std::fs::set_permissions(run.path(), std::fs::Permissions::from_mode(0o777)).expect("set");
        let served = Served { device: "ublkb7".into(), disk: "nvme0n1".into(), streams: 8 };
        let error = ControlSocket::open_in(run.path(), &served).expect_err("unsafe").to_string();
        assert!(error.contains("mode 777"), "{error}");
    }
}
