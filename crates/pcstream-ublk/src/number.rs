//! The number of a device that is made.
//!
//! Idea: the kernel keeps a device as long as somebody has it mounted or open, also when its server was killed. Until then nobody gets
//! its number. Whoever asks for that number waits, so that the same device comes back. A number that somebody else has is refused.

use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

use pcstream_system::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::abi::{self, DeviceInfo};
use crate::control::Control;
use crate::error::UblkError;
use crate::link;
use crate::making::{Making, remove, remove_dead};

/// Between two tries.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// In place of a number: any.
pub(crate) const ANY: u32 = u32::MAX;

/// Who has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Another program.
    Another,
    /// A server that runs, by its process.
    Living(i32),
    /// A server that is gone, or has yet to start its device.
    Nobody,
}

impl Holder {
    /// `lives`: whether the server is there.
    fn of(info: &DeviceInfo, lives: bool) -> Holder {
        match (info.server_flags == abi::OF_PCSTREAM, info.state == abi::STATE_DEAD) {
            (false, _) => Holder::Another,
            (true, false) if lives => Holder::Living(info.server),
            (true, _) => Holder::Nobody,
        }
    }
}

/// Makes a device, after it removed those of killed servers. While one of them has the number that is wanted, it waits, and calls `waits`
/// once. Others have their turn meanwhile. Nobody else has it as long as the caller keeps what is returned. Errors: the number is somebody
/// else's; `stop` can be read.
pub(crate) fn add(
    control: &mut Control,
    wanted: DeviceInfo,
    stop: BorrowedFd<'_>,
    waits: impl FnOnce(),
) -> Result<(DeviceInfo, Making), UblkError> {
    let (mut waits, mut is_first) = (Some(waits), true);
    until(stop, || {
        let Some(making) = Making::try_lock()? else { return Ok(None) };
        if std::mem::take(&mut is_first) {
            remove_dead(control, &making);
        }
        match control.add(wanted) {
            Ok(made) => Ok(Some((made, making))),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && wanted.id != ANY => {
                check_free(control, wanted.id, &making)?;
                if let Some(waits) = waits.take() {
                    waits();
                }
                Ok(None)
            }
            Err(source) => Err(UblkError::command("make a device", source)),
        }
    })
}

/// Errors: the number is of a device that somebody serves, or that another program made.
fn check_free(control: &mut Control, id: u32, making: &Making) -> Result<(), UblkError> {
    let taken = |by: String| Err(UblkError::Taken { id, by });
    let info = match control.info(id) {
        Ok(info) => info,
        // It was given back just now.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
        Err(source) => return Err(UblkError::command("look at a device", source)),
    };
    let device = format!("ublkb{id}");
    let listens = link::listens(&device);
    match Holder::of(&info, listens.is_ok() || lives(info.server)) {
        Holder::Another => taken("another program".to_owned()),
        Holder::Living(server) => taken(format!("process {server}, which serves it")),
        Holder::Nobody => {
            let is_left = match listens.map_err(|error| error.kind()) {
                Err(ErrorKind::ConnectionRefused) => true,
                // Its server was killed before it listened, or the socket was removed.
                Err(ErrorKind::NotFound) => info.state == abi::STATE_DEAD && !lives(info.server),
                _ => false,
            };
            if is_left {
                remove(control, &device, making);
            }
            Ok(())
        }
    }
}

fn lives(server: i32) -> bool {
    u32::try_from(server).ok().and_then(process::stat).is_some_and(|stat| !stat.has_ended())
}

/// Tries until something comes of it. Errors: `stop` can be read before.
fn until<T>(
    stop: BorrowedFd<'_>,
    mut attempt: impl FnMut() -> Result<Option<T>, UblkError>,
) -> Result<T, UblkError> {
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        match poll(&mut [PollFd::from_borrowed_fd(stop, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Err(UblkError::Stopped),
            Err(errno) => return Err(UblkError::command("wait", errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_the_number_of_a_killed_server_is_waited_for() {
        let served =
            DeviceInfo { state: 1, server: 17, server_flags: abi::OF_PCSTREAM, ..DeviceInfo::default() };
        assert_eq!(Holder::of(&served, true), Holder::Living(17));
        assert_eq!(Holder::of(&served, false), Holder::Nobody, "the kernel has not put it away yet");
        let dead = DeviceInfo { state: abi::STATE_DEAD, ..served };
        assert_eq!([true, false].map(|lives| Holder::of(&dead, lives)), [Holder::Nobody; 2]);
        let foreign = DeviceInfo { server_flags: 0, ..dead };
        assert_eq!([true, false].map(|lives| Holder::of(&foreign, lives)), [Holder::Another; 2]);
        // No number of a process is as large.
        let pids = [-1, 0, i32::MAX, std::process::id() as i32];
        assert_eq!(pids.map(lives), [false, false, false, true]);
    }

    #[test]
    fn a_wait_ends_with_the_first_success_or_a_signal() {
        let (mut signal, stop) = UnixStream::pair().expect("a socket");
        let mut tries = 0;
        let mut third = || {
            tries += 1;
            Ok((tries == 3).then_some(tries))
        };
        assert_eq!(until(stop.as_fd(), &mut third).expect("the third"), 3);
        signal.write_all(b"x").expect("there is room");
        let ended = until(stop.as_fd(), &mut third).expect_err("a signal came");
        assert!(matches!(ended, UblkError::Stopped) && tries == 4, "{ended}: {tries}");
        let failed = until::<()>(stop.as_fd(), || Err(UblkError::NoUblk)).expect_err("it is hopeless");
        assert!(matches!(failed, UblkError::NoUblk), "{failed}");
    }
}
