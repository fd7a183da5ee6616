// Anybody's bytes for an audit log: no crash and no growth, what is accepted as a record has one
// spelling, and nothing verifies but what the key has signed. A byte 0xff begins another file.

#include <cstdlib>
#include <string>

#include "mvm/audit/log.h"
#include "mvm/audit/verify.h"
#include "mvm/base/error.h"

using namespace mvm;
using namespace mvm::audit;

static crypto::SigningKey key_of(char letter) {
  crypto::SigningKey::Seed seed;
  seed.fill(static_cast<std::byte>(letter));
  return crypto::SigningKey(seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const crypto::PublicKey authority = key_of('d').public_key();
  const std::string_view text = as_text(std::as_bytes(std::span(data, size)));
  Verifier whole(authority, LogId("sb-test"));
  Verifier pieces(authority, LogId("sb-test"));
  uint64_t number = 0;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find('\xff', at), text.size());
    const std::string_view file = text.substr(at, end - at);
    ++number;
    whole.begin_file(file_name(number), number);
    whole.feed(as_bytes(file));
    pieces.begin_file(file_name(number), number);
    for (size_t i = 0; i < file.size(); i += 3) pieces.feed(as_bytes(file.substr(i, 3)));
    const std::string_view line = file.substr(0, file.find('\n'));
    if (const auto record = parse(line)) {
      if (line.size() > kMaxLine) std::abort();
      if (parse(std::string(line) + " ") || is_later_version(line)) std::abort();
    }
    at = end + 1;
  }
  const Verdict one = whole.finish();
  const Verdict other = pieces.finish();
  // However the bytes come, the verdict is the same.
  if (one.ok() != other.ok() || one.records != other.records || one.head != other.head)
    std::abort();
  // Nothing can be accepted before a signature of the daemon's.
  if (one.records != 0 && one.signatures == 0) std::abort();
  return 0;
}
