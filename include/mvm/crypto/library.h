#pragma once
// The crypto library as a whole.

namespace mvm::crypto {

// Leaves out of this process what certificates and TLS alone need: the library's configuration
// file, its names of algorithms and its texts of errors, which are most of its start and 400 KiB
// of memory. Digests, signatures and random numbers work without; TLS does not. To be called
// before anything else of this module, or it changes nothing.
void use_digests_and_signatures_alone() noexcept;

}
