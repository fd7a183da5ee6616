#pragma once
// The start of the crypto library.

namespace mvm::crypto {

// First of all in a process that serves: neither the host's openssl.cnf (nor $OPENSSL_CONF, which
// could make it load code) nor tables of ciphers by name that nobody here asks for.
void start_library();

}
