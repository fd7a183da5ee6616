#include "environment.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/crypto/random.h"
#include "mvm/proto/cbor.h"
#include "mvm/proto/exec.h"
#include "mvm/proto/health.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::daemon {

static std::string purpose_of(const std::string& id) { return "mvm environment 1 " + id; }

EnvironmentSeal::EnvironmentSeal(const std::string& path) {
  if (!sys::exists(path)) {
    crypto::random_bytes(key_);
    sys::write_file_atomic(path, key_);
    return;
  }
  const sys::Fd file = sys::open_own_file(path, O_RDONLY);
  struct stat status{};
  sys::check(::fstat(file.get(), &status), "looking at " + path);
  if ((status.st_mode & 077) != 0)
    throw Error(Kind::Denied, path + " can be read by others; chmod 600 it");
  if (static_cast<size_t>(status.st_size) != key_.size() || !sys::pread_exact(file.get(), key_, 0))
    throw Error(Kind::Invalid,
                path +
                    " is damaged: the environments of the sandboxes there are were sealed with "
                    "it. Restore it, or remove it and make the sandboxes anew");
}

EnvironmentSeal::~EnvironmentSeal() { crypto::wipe(key_); }

Bytes EnvironmentSeal::seal(const std::string& id, const Sealed& what) const {
  Bytes plain;
  size_t size = 32;
  for (const auto& [name, value] : what.env) size += name.size() + value.size() + 16;
  for (const std::string& word : what.health) size += word.size() + 8;
  plain.reserve(size);  // once, so that no copy is left behind
  const ScopeExit forget([&] { crypto::wipe(plain); });
  proto::CborWriter writer(plain);
  writer.map(what.env.size());
  for (const auto& [name, value] : what.env) {
    writer.string(name);
    writer.string(value);
  }
  writer.array(what.health.size());
  for (const std::string& word : what.health) writer.string(word);
  return crypto::seal(key_, purpose_of(id), plain);
}

std::optional<Sealed> EnvironmentSeal::open(const std::string& id, ByteView sealed) const {
  auto plain = crypto::unseal(key_, purpose_of(id), sealed);
  if (!plain) return std::nullopt;
  const ScopeExit forget([&] { crypto::wipe(*plain); });
  Sealed out;
  proto::CborReader in(*plain);
  const size_t count = in.map(proto::kMaxEnvironment);
  for (size_t i = 0; i < count && in; ++i) {
    const std::string name(in.string(proto::kMaxEnvironmentBytes));
    out.env[name] = in.string(proto::kMaxEnvironmentBytes);
  }
  // Older ones have no commands.
  const size_t words = in && !in.at_end() ? in.array(proto::kMaxHealthWords) : 0;
  for (size_t i = 0; i < words && in; ++i)
    out.health.emplace_back(in.string(proto::kMaxHealthCommand));
  if (!in || !in.at_end()) return std::nullopt;
  return out;
}

}
