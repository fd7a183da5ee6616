#include "mvm/crypto/library.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/file.h"

namespace mvm::crypto {

// A configuration under which there is no SHA-256 to be had.
static int hash_under(const std::string& config, bool start) {
  ::setenv("OPENSSL_CONF", config.c_str(), 1);
  try {
    if (start) start_library();
    sha256(as_bytes("abc"));
    return 0;
  } catch (const Error&) {
    return 1;
  }
}

TEST(Library, IsNotLedByTheHostsConfiguration) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // each in a process that has not used it yet
  const sys::TempDir folder;
  const std::string config = folder.path() + "/openssl.cnf";
  sys::write_file_atomic(config, as_bytes("openssl_conf = start\n"
                                          "[start]\nalg_section = algorithms\n"
                                          "[algorithms]\ndefault_properties = nobody=has\n"));
  EXPECT_EXIT(std::_Exit(hash_under(config, false)), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(std::_Exit(hash_under(config, true)), testing::ExitedWithCode(0), "");
}

}
