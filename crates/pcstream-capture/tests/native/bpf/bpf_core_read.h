/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define NATIVE_READ_1(a, b) ((a)->b)
#define NATIVE_READ_2(a, b, c) ((a)->b->c)
#define NATIVE_READ_3(a, b, c, d) ((a)->b->c->d)
#define NATIVE_PICK(a, b, c, d, name, ...) name
#define BPF_CORE_READ(arguments...) NATIVE_PICK(arguments, NATIVE_READ_3, NATIVE_READ_2, NATIVE_READ_1)(arguments)
#define bpf_core_field_exists(field) 1
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
#define bpf_core_type_size(type) sizeof(type)
#define bpf_core_enum_value_exists(type, value) 1
#define bpf_core_enum_value(type, value) value
#define bpf_core_type_id_kernel(type) 0
