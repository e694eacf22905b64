//! What the kernel's ublk driver and its servers agree on (`linux/ublk_cmd.h`), as far as it is used here.
//!
//! Units: sectors of 512 bytes; shifts are logarithms to base 2.

/// Commands to `/dev/ublk-control`, and their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Command {
    /// `UBLK_U_CMD_GET_DEV_INFO`.
    Info = read(0x02, CONTROL_BYTES),
    /// `UBLK_U_CMD_ADD_DEV`.
    Add = write_read(0x04, CONTROL_BYTES),
    /// `UBLK_U_CMD_START_DEV`.
    Start = write_read(0x06, CONTROL_BYTES),
    /// `UBLK_U_CMD_STOP_DEV`.
    Stop = write_read(0x07, CONTROL_BYTES),
    /// `UBLK_U_CMD_SET_PARAMS`.
    SetParameters = write_read(0x08, CONTROL_BYTES),
    /// `UBLK_U_CMD_GET_FEATURES`.
    Features = read(0x13, CONTROL_BYTES),
    /// `UBLK_U_CMD_DEL_DEV_ASYNC`: does not wait for those who have the device open.
    Delete = read(0x14, CONTROL_BYTES),
}

const CONTROL_BYTES: u32 = size_of::<ControlCommand>() as u32;

/// `_IOR('u', number, bytes)`.
const fn read(number: u32, bytes: u32) -> u32 {
    2 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// `_IOWR('u', number, bytes)`.
const fn write_read(number: u32, bytes: u32) -> u32 {
    1 << 30 | read(number, bytes)
}

/// A queue's first command for each tag: `UBLK_U_IO_FETCH_REQ`.
pub const FETCH: u32 = write_read(0x20, size_of::<IoCommand>() as u32);
/// The answer to a request, and the wish for the next one: `UBLK_U_IO_COMMIT_AND_FETCH_REQ`.
pub const COMMIT_AND_FETCH: u32 = write_read(0x21, size_of::<IoCommand>() as u32);

/// `UBLK_F_CMD_IOCTL_ENCODE`.
pub const ENCODED_COMMANDS: u64 = 1 << 6;
/// `UBLK_F_AUTO_BUF_REG`: pages of a request are in the table of buffers of the ring that fetched it (Linux 6.16).
pub const BUFFERS_IN_RING: u64 = 1 << 11;

/// In `ublksrv_flags`, which the kernel keeps for servers: the device is of this program.
pub const OF_PCSTREAM: u64 = u64::from_be_bytes(*b"pcstream");

/// A device whose server is gone, or that was not started yet: `UBLK_S_DEV_DEAD`.
pub const STATE_DEAD: u16 = 0;

/// Where the descriptors of a queue begin in the character device: this, times the queue's number.
pub const QUEUE_STRIDE: u64 = (4096 * size_of::<Descriptor>()) as u64;

/// `struct ublksrv_ctrl_cmd`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ControlCommand {
    /// Which device.
    pub id: u32,
    /// Which queue; all ones: none.
    pub queue: u16,
    /// Bytes at `address`.
    pub bytes: u16,
    /// Of what is read or written.
    pub address: u64,
    /// A number.
    pub data: u64,
    pub(crate) reserved: [u32; 2],
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DeviceInfo {
    /// Queues.
    pub queues: u16,
    /// Requests of each queue.
    pub depth: u16,
    /// Whether somebody serves it.
    pub state: u16,
    pub(crate) pad: u16,
    /// The largest request.
    pub request_bytes_max: u32,
    /// Its number; all ones: any.
    pub id: u32,
    /// Who serves it.
    pub server: i32,
    pub(crate) pad_1: u32,
    /// Features.
    pub flags: u64,
    pub(crate) server_flags: u64,
    pub(crate) owner: [u32; 2],
    pub(crate) reserved: [u64; 2],
}

/// `struct ublksrv_io_cmd`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct IoCommand {
    /// Which queue.
    pub queue: u16,
    /// Which request.
    pub tag: u16,
    /// Bytes that were read or written, or a negative error number.
    pub result: i32,
    pub(crate) address: u64,
}

/// `struct ublksrv_io_desc`: a request.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Descriptor {
    /// What is asked for, in the lowest byte, and flags.
    pub operation: u32,
    /// How much.
    pub sectors: u32,
    /// Where.
    pub start: u64,
    /// Of a buffer; nothing here.
    pub address: u64,
}

/// `UBLK_IO_OP_READ`.
pub const READ: u32 = 0;
/// `UBLK_IO_OP_WRITE`.
pub const WRITE: u32 = 1;
/// `UBLK_IO_OP_FLUSH`.
pub const FLUSH: u32 = 2;
/// `UBLK_IO_OP_DISCARD`.
pub const DISCARD: u32 = 3;
/// `UBLK_IO_OP_WRITE_ZEROES`.
pub const WRITE_ZEROES: u32 = 5;
/// `UBLK_IO_F_FUA`: to be on the medium when it is answered.
pub const IO_FUA: u32 = 1 << 13;
/// `UBLK_IO_F_NOUNMAP`: zeros are to be written, not made by a discard.
pub const NO_UNMAP: u32 = 1 << 15;

/// `struct ublk_params`, all that this kernel may look at. What `types` does not name is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Parameters {
    /// Its own size.
    pub bytes: u32,
    /// Which parts count.
    pub types: u32,
    /// `UBLK_ATTR_…`.
    pub attributes: u32,
    /// Of the unit in which is addressed.
    pub logical_block_shift: u8,
    /// Of the unit that the disk writes at once.
    pub physical_block_shift: u8,
    /// Of the best size of requests.
    pub io_opt_shift: u8,
    /// Of the least that is not slow.
    pub io_min_shift: u8,
    /// The largest request.
    pub sectors_max: u32,
    pub(crate) chunk_sectors: u32,
    /// The size.
    pub sectors: u64,
    pub(crate) virtual_boundary: u64,
    pub(crate) discard_alignment: u32,
    /// Bytes.
    pub discard_granularity: u32,
    /// The largest discard; 0: none.
    pub discard_sectors_max: u32,
    /// The largest write of zeros; 0: none.
    pub zero_sectors_max: u32,
    /// Of a discard.
    pub discard_segments_max: u16,
    pub(crate) discard_reserved: u16,
    pub(crate) device_numbers: [u32; 4],
    pub(crate) zones: [u32; 8],
    /// Of memory, as a mask.
    pub dma_alignment: u32,
    pub(crate) dma_pad: u32,
}

/// `UBLK_PARAM_TYPE_BASIC`.
pub const BASIC: u32 = 1;
/// `UBLK_PARAM_TYPE_DISCARD`.
pub const DISCARDS: u32 = 1 << 1;
/// `UBLK_PARAM_TYPE_DMA_ALIGN`.
pub const DMA_ALIGNMENT: u32 = 1 << 4;
/// `UBLK_ATTR_ROTATIONAL`.
pub const ROTATIONAL: u32 = 1 << 1;
/// `UBLK_ATTR_VOLATILE_CACHE`: what was written is to be flushed.
pub const VOLATILE_CACHE: u32 = 1 << 2;
/// `UBLK_ATTR_FUA`.
pub const ATTR_FUA: u32 = 1 << 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn numbers_and_layouts_are_those_of_the_header() {
        let commands = [Command::Info, Command::Add, Command::Start, Command::Delete].map(|c| c as u32);
        assert_eq!(commands, [0x8020_7502, 0xc020_7504, 0xc020_7506, 0x8020_7514]);
        assert_eq!([FETCH, COMMIT_AND_FETCH], [0xc010_7520, 0xc010_7521]);
        let sizes = [size_of::<ControlCommand>(), size_of::<DeviceInfo>(), size_of::<Descriptor>()];
        assert_eq!(sizes, [32, 64, 24]);
        let offsets = [offset_of!(Parameters, sectors), offset_of!(Parameters, discard_granularity)];
        assert_eq!(offsets, [24, 44]);
        assert_eq!(offset_of!(Parameters, discard_segments_max), 56);
        assert_eq!(offset_of!(Parameters, dma_alignment), 108);
        let offsets = [offset_of!(DeviceInfo, id), offset_of!(DeviceInfo, flags)];
        assert_eq!((offsets, offset_of!(DeviceInfo, server_flags)), ([12, 24], 32));
        assert_eq!(QUEUE_STRIDE, 98304);
    }
}
