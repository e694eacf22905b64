//! What a service tells systemd (`sd_notify(3)`): that it is ready, reloads, stops.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The way to systemd, if there is one.
#[derive(Debug, Default)]
pub struct Notifier(Option<(UnixDatagram, SocketAddr)>);

impl Notifier {
    /// To the socket that `NOTIFY_SOCKET` names: a path, or a name of the abstract kind behind `@`.
    pub fn to(socket: Option<&OsStr>) -> Notifier {
        let address = socket.and_then(|name| match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            [b'/', ..] => SocketAddr::from_pathname(name).ok(),
            _ => None,
        });
        Notifier(address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))))
    }

    /// Everything is in place.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// A reload begins, at this time of the monotonic clock. [`Notifier::ready`] ends it.
    pub fn reloading(&self, monotonic_us: u64) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={monotonic_us}"));
    }

    /// The end begins.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Nobody else needs to know if systemd does not listen.
    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn messages_arrive_at_both_kinds_of_sockets() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let by_path = UnixDatagram::bind(&path).expect("bound");
        let name = format!("pcstream-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let by_name = UnixDatagram::bind_addr(&address).expect("bound");
        let at_name = format!("@{name}");
        for (socket, at) in [(&by_path, path.as_os_str()), (&by_name, OsStr::new(&at_name))] {
            let notifier = Notifier::to(Some(at));
            notifier.ready("placing\non x");
            assert_eq!(received(socket), "READY=1\nSTATUS=placing on x");
            notifier.reloading(12);
            assert_eq!(received(socket), "RELOADING=1\nMONOTONIC_USEC=12");
            notifier.stopping();
            assert_eq!(received(socket), "STOPPING=1");
        }
    }

    #[test]
    fn without_a_socket_nothing_happens() {
        for socket in
            [None, Some(OsStr::new("relative")), Some(OsStr::new("/no/such/socket")), Some(OsStr::new(""))]
        {
            Notifier::to(socket).ready("");
        }
    }
}
