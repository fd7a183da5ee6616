#pragma once
// The start of the crypto library.

namespace mvm::crypto {

// First of all in a process that serves: neither the host's openssl.cnf (nor $OPENSSL_CONF, which
// could make it load code) nor tables of ciphers by name that nobody here asks for.
void start_library();

// Leaves out of this process what certificates and TLS alone need besides: names of digests and
// texts of errors, with which they are most of the library's start and 400 KiB of memory. Digests,
// signatures and random numbers work without; TLS does not. Before anything else but
// start_library(), or it changes nothing.
void use_digests_and_signatures_alone() noexcept;

}
