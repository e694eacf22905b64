// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lets a BPF program choose the write stream of a bio, on an unpatched kernel (6.16 or newer, the
 * first with write streams). The module adds one kfunc and nothing else: no device, no file, no
 * parameter, no state.
 *
 *	int bpf_bio_set_write_stream(struct bio *bio, u8 stream)
 *
 * It can be called from a tp_btf program on block_bio_queue only. There the submitter still owns the
 * bio: it was neither split nor merged, and no request holds it. The block layer merges no bios of
 * different streams, and splits keep the stream.
 *
 * A stream says where the device puts data, never what the data is. So a wrong stream costs write
 * amplification, and nothing else.
 */
#include <linux/blkdev.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/module.h>

/* Kernels without this flag trust no argument that the verifier does not know to be good. */
#ifndef KF_TRUSTED_ARGS
#define KF_TRUSTED_ARGS 0
#endif

__bpf_kfunc_start_defs();

/**
 * bpf_bio_set_write_stream - choose the write stream of a bio
 * @bio: the bio that block_bio_queue reports
 * @stream: 1 to max_write_streams of the device's queue, or 0 for none
 *
 * Overrides what the file system or the program chose.
 *
 * Return: 0, or -EINVAL if the bio is no write or the device has no such stream.
 */
__bpf_kfunc int bpf_bio_set_write_stream(struct bio *bio, u8 stream)
{
	/* bdev_max_write_streams() says 0 of a partition, whose bios the same queue takes. */
	if (bio_op(bio) != REQ_OP_WRITE || stream > bdev_limits(bio->bi_bdev)->max_write_streams)
		return -EINVAL;
	bio->bi_write_stream = stream;
	return 0;
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(pcstream_bio_ids)
BTF_ID_FLAGS(func, bpf_bio_set_write_stream, KF_TRUSTED_ARGS)
BTF_KFUNCS_END(pcstream_bio_ids)

/*
 * The kernel asks this for the functions of this module only, and there is one. It must not look for
 * the function in its own set: a module's set holds other numbers than the kernel's copy of it.
 */
static int pcstream_bio_filter(const struct bpf_prog *prog, u32 kfunc_id)
{
	if (prog->expected_attach_type == BPF_TRACE_RAW_TP && prog->aux->attach_func_name &&
	    !strcmp(prog->aux->attach_func_name, "block_bio_queue"))
		return 0;
	return -EACCES;
}

static const struct btf_kfunc_id_set pcstream_bio_set = {
	.owner = THIS_MODULE,
	.set = &pcstream_bio_ids,
	.filter = pcstream_bio_filter,
};

static int __init pcstream_bio_init(void)
{
	return register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &pcstream_bio_set);
}

/* Programs that call the function hold the module, so there is nothing to undo. */
static void __exit pcstream_bio_exit(void)
{
}

module_init(pcstream_bio_init);
module_exit(pcstream_bio_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Lets a BPF program choose the write stream of a bio");
MODULE_VERSION("1.0");
