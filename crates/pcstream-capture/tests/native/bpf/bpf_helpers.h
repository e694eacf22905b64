/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The BPF program as a normal program: what the kernel provides, in plain C. Maps are known by their
 * address; reads of user memory go to the stack of the case under test, and fail where it says.
 */
#ifndef NATIVE_BPF_HELPERS_H
#define NATIVE_BPF_HELPERS_H

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __ksym
#define __weak __attribute__((weak))
#define offsetof(type, member) __builtin_offsetof(type, member)
#define bpf_ksym_exists(symbol) 1

void *native_lookup(void *map, const void *key);
long native_update(void *map, const void *key, const void *value);
long native_read_user(void *to, unsigned size, const void *from);
void *native_reserve(unsigned long long size);
void native_submit(void *record);
void native_output(const void *record, unsigned long long size);
struct task_struct *native_task(void);
long native_regs(void);

#define bpf_map_lookup_elem(map, key) native_lookup((void *)(map), key)
#define bpf_map_update_elem(map, key, value, flags) native_update((void *)(map), key, value)
#define bpf_map_delete_elem(map, key) 0
#define bpf_probe_read_user(to, size, from) native_read_user(to, size, from)
#define bpf_probe_read_kernel(to, size, from) (__builtin_memcpy(to, from, size), 0)
#define bpf_probe_read_kernel_str(to, size, from) (__builtin_memcpy(to, from, size), 0)
#define bpf_ktime_get_ns() 12345ULL
#define bpf_get_current_pid_tgid() 0x700000007ULL
#define bpf_get_attach_cookie(context) 0
#define bpf_get_prandom_u32() 1
#define bpf_get_current_comm(to, size) (__builtin_memset(to, 0, size), 0)
#define bpf_get_current_task_btf() native_task()
#define bpf_task_pt_regs(task) native_regs()
#define bpf_task_storage_get(map, task, value, flags) ((void *)0)
#define bpf_current_task_under_cgroup(map, index) 1
#define bpf_ringbuf_query(map, what) ((what) == BPF_RB_RING_SIZE ? 65536ULL : 0ULL)
#define bpf_ringbuf_reserve(map, size, flags) native_reserve(size)
#define bpf_ringbuf_submit(record, flags) native_submit(record)
#define bpf_ringbuf_output(map, data, size, flags) (native_output(data, size), 0)
#define bpf_find_vma(task, address, function, context, flags) (-1)

static inline long bpf_loop(unsigned times, void *function, void *context, unsigned long long flags)
{
	long (*step)(unsigned long long, void *) = (long (*)(unsigned long long, void *))function;

	for (unsigned i = 0; i < times; i++)
		if (step(i, context))
			return i + 1;
	return times;
}

#endif
