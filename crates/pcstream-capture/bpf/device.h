/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * A device without a file system, whose owner writes to it directly; and streams for programs that ask.
 *
 *   is_direct_on_device       whether a request is direct I/O on the device
 *   context_of_device_buffer  the path kept for what such a request writes (buffers.h)
 *   answer                    gives a program that asks the stream of its call path (pcstream_stream of pcstream.h)
 *
 * A program that asks is stopped at a probe, to which it gives a ticket: a number that nobody else has. The answer is put into a
 * table that programs can read, at the ticket's place and together with the ticket. So answers of others, and old ones, are known for
 * what they are, and a table into which nobody writes any more answers nothing.
 *
 * Invariants: only a program that asks for a descriptor of this device gets an answer. A write that starts where a program said
 * has that path, whoever submits it.
 *
 * Known weaknesses: data given by vectors (writev, IORING_OP_WRITEV) and by libaio is not looked for: such writes have the path
 * that submits them. NVMe commands by io_uring (/dev/ng0n1) make no request that is seen here. Of two threads whose tickets have the
 * same place at the same moment, one gets no answer.
 */
#ifndef PCSTREAM_DEVICE_H
#define PCSTREAM_DEVICE_H

#include "../libpcstream/answers.h"
#include "buffers.h"
#include "requests.h"

/* What completes direct I/O on a device: of many requests, of one, and of one that its task waits for. */
extern const void blkdev_bio_end_io __ksym __weak;
extern const void blkdev_bio_end_io_async __ksym __weak;
extern const void submit_bio_wait_endio __ksym __weak;
/* The last of them as Linux 7.2 calls it. */
extern const void bio_wait_end_io __ksym __weak;

/* What completes a read or write of io_uring. */
extern const void io_complete_rw __ksym __weak;
extern const void io_complete_rw_iopoll __ksym __weak;

static __always_inline bool is_direct_on_device(struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io;

	/* Tasks of the kernel wait for other requests, too. */
	if (COMPLETES_BY(end_io, submit_bio_wait_endio) || COMPLETES_BY(end_io, bio_wait_end_io))
		return bpf_get_current_task_btf()->mm;
	return COMPLETES_BY(end_io, blkdev_bio_end_io) || COMPLETES_BY(end_io, blkdev_bio_end_io_async);
}

/* The request of io_uring that begins with this kiocb; 0: it is of no such request. */
static __always_inline u64 request_of(u64 iocb)
{
	/* Of a device's task that waits, something else lies there, which is no function. */
	u64 done = (u64)BPF_CORE_READ((struct kiocb *)iocb, ki_complete);

	return COMPLETES_BY(done, io_complete_rw) || COMPLETES_BY(done, io_complete_rw_iopoll) ? iocb : 0;
}

/* The request of io_uring that a direct one belongs to; NULL: none. */
static __always_inline struct io_rw *uring_of(struct workspace *ws, struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io;
	struct blkdev_dio *dio;
	struct kiocb *iocb;

	if (COMPLETES_BY(end_io, blkdev_bio_end_io_async))
		dio = (void *)(number_of(ws, bio) - bpf_core_field_offset(struct blkdev_dio, bio));
	else if (COMPLETES_BY(end_io, blkdev_bio_end_io))
		dio = BPF_CORE_READ(bio, bi_private);
	else
		return NULL;
	iocb = BPF_CORE_READ(dio, iocb);
	return (void *)request_of((u64)iocb);
}

/* The path kept for the data of a direct request that begins at `sector` of the device. */
static __always_inline u64 context_of_device_buffer(struct workspace *ws, struct task_struct *task, struct bio *bio, u64 sector)
{
	u64 at = sector << 9, address, from, writer;
	struct pt_regs *regs = user_regs(task);
	struct task_cache *cache;
	struct memory *pool;
	struct io_rw *uring;

	if (!buffers || !has_pools)
		return 0;
	uring = uring_of(ws, bio);
	if (uring) {
		address = BPF_CORE_READ(uring, addr);
		from = BPF_CORE_READ(uring, kiocb.ki_pos);
		writer = signature_mix((u64)uring, from);
	} else if (task->mm && is_writing(task, regs)) {
		address = regs->si;
		from = write_start(task, regs, at);
		writer = call_writer(task);
	} else {
		return 0;
	}
	if (at < from)
		return 0;
	cache = cache_of(task);
	pool = pool_of(cache, task, address);
	/* Else a write of several requests that was marked as a whole. */
	return take_data(cache, pool, address, at - from, writer) ?: take_data(cache, pool, address, 0, writer);
}

/* What programs are answered: tickets, each with a stream in its lowest byte. User space can only read it: it is frozen. */
MAP_WITH(BPF_F_MMAPABLE, stream_answers, ARRAY, PCSTREAM_ANSWERS, u32, u64);

static __always_inline void answer(struct task_struct *task, u64 context, u32 descriptor, u64 ticket)
{
	u32 at = ticket >> PCSTREAM_ANSWER_SHIFT & (PCSTREAM_ANSWERS - 1), stream = 0;
	struct file *file;
	u64 *place;

	if (!answering || !raw || !ticket)
		return;
	file = file_of(task, descriptor);
	if (!file || !leads_to_target(BPF_CORE_READ(file, f_inode)))
		return;
	if (context)
		stream = stream_of(context, counting_version());
	if (stream)
		count(STREAM_ANSWERS);
	place = bpf_map_lookup_elem(&stream_answers, &at);
	if (place)
		*(volatile u64 *)place = (ticket & ~0xffULL) | stream;
}

#endif
