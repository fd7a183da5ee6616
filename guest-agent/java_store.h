#pragma once
// Java's own stores of certificates. A JVM reads no bundle and no variable, but "cacerts" beside
// its libraries: a JKS file, or since Java 18 a PKCS #12 file without a password.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::guest {

inline constexpr size_t kMaxJavaStores = 16;

// `store` and in it the certificate (DER), in place of the one that an earlier call put there.
// Nothing when that is no such file, or has a password of its own.
std::optional<Bytes> with_java_authority(ByteView store, ByteView certificate);

// The first certificate of a PEM text; empty when there is none.
Bytes first_certificate(std::string_view pem);

// Paths of the stores of the JVMs below `root`, where distributions and their makers put them.
std::vector<std::string> java_stores(const std::string& root);

}
