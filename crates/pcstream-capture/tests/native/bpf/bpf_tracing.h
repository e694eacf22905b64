/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define BPF_PROG(name, arguments...) name(arguments)
