// SPDX-License-Identifier: MIT OR Apache-2.0
// Encrypts an empty directory of a file system that can (mkfs.ext4 -O encrypt), under a key of this test: fscrypt, version 2.
#include <fcntl.h>
#include <linux/fscrypt.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define KEY_BYTES 64

int main(int argc, char **argv)
{
	union {
		struct fscrypt_add_key_arg arg;
		char bytes[sizeof(struct fscrypt_add_key_arg) + KEY_BYTES];
	} key = { .arg = { .key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER, .raw_size = KEY_BYTES } };
	struct fscrypt_policy_v2 policy = {
		.version = FSCRYPT_POLICY_V2,
		.contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS,
		.filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS,
		.flags = FSCRYPT_POLICY_FLAGS_PAD_32,
	};
	int directory = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;

	for (int at = 0; at < KEY_BYTES; at++)
		key.arg.raw[at] = at + 1;
	if (directory < 0 || ioctl(directory, FS_IOC_ADD_ENCRYPTION_KEY, &key.arg)) {
		perror("add the key");
		return 1;
	}
	memcpy(policy.master_key_identifier, key.arg.key_spec.u.identifier, sizeof(policy.master_key_identifier));
	if (ioctl(directory, FS_IOC_SET_ENCRYPTION_POLICY, &policy)) {
		perror("set the policy");
		return 1;
	}
	return 0;
}
