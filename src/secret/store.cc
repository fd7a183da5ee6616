#include "mvm/secret/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/crypto/random.h"
#include "mvm/crypto/seal.h"
#include "mvm/proto/cbor.h"
#include "mvm/proto/secrets.h"
#include "mvm/secret/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::secret {
namespace {

constexpr std::string_view kPurpose = "mvm secrets 1";
constexpr size_t kMaxFile = size_t{4} << 20;

Bytes read_own(const std::string& path, size_t limit) {
  const sys::Fd file = sys::open_own_file(path, O_RDONLY);
  struct stat status{};
  sys::check(::fstat(file.get(), &status), "looking at " + path);
  if ((status.st_mode & 077) != 0)
    throw Error(Kind::Denied,
                path + " can be read by others: chmod 600 it, and change the secrets");
  if (static_cast<uint64_t>(status.st_size) > limit)
    throw Error(Kind::Exhausted, path + " is larger than it can be");
  Bytes out(static_cast<size_t>(status.st_size));
  if (!sys::pread_exact(file.get(), out, 0))
    throw Error(Kind::Invalid, path + " became shorter while it was read");
  return out;
}

// The fixed-size key, wiped when dropped.
struct Key {
  explicit Key(const Bytes& bytes) {
    if (bytes.size() != value.size())
      throw Error(Kind::Invalid, "the key of the stored secrets is damaged");
    std::copy(bytes.begin(), bytes.end(), value.begin());
  }
  ~Key() { crypto::wipe(value); }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  std::array<std::byte, crypto::kSealKey> value{};
};

Bytes encode(const StoredMap& entries) {
  Bytes out;
  size_t size = 64;
  for (const auto& [name, entry] : entries)
    size += name.size() + entry.from.size() + entry.value.size() + 64;
  out.reserve(size);  // once, so that no copy is left behind
  proto::CborWriter writer(out);
  writer.map(entries.size());
  for (const auto& [name, entry] : entries) {
    writer.string(name);
    writer.array(3);
    writer.string(entry.from);
    writer.string(entry.value);
    writer.integer(entry.set_at);
  }
  return out;
}

StoredMap decode(ByteView plain, const std::string& path) {
  StoredMap out;
  proto::CborReader in(plain);
  const size_t count = in.map(Store::kMaxEntries);
  for (size_t i = 0; i < count && in; ++i) {
    Stored& entry = out[std::string(in.string(proto::kMaxSecretText))];
    if (in.array(3) != 3) in.fail();
    entry.from = in.string(proto::kMaxSecretText);
    entry.value = in.string(proto::kMaxSecretValue);
    entry.set_at = in.integer();
  }
  if (!in || !in.at_end()) throw Error(Kind::Invalid, path + " does not decode");
  return out;
}

}

StoredMap::~StoredMap() {
  for (auto& [name, entry] : *this) wipe(entry.value);
}

sys::Fd Store::lock() const {
  sys::make_directories(directory_);
  // Of a link in its place, the values would land where it leads.
  if (!sys::is_directory(sys::open_file(directory_, O_PATH | O_NOFOLLOW).get()))
    throw Error(Kind::Denied, directory_ + " is a symbolic link, and no directory of mvm's own");
  sys::Fd file = sys::open_own_file(path("lock"), O_RDWR | O_CREAT);
  sys::check(sys::uninterrupted([&] { return ::flock(file.get(), LOCK_EX); }),
             "locking " + path("lock"));
  return file;
}

StoredMap Store::read() const {
  if (!sys::exists(path("values"))) return {};
  Bytes key_bytes = read_own(path("key"), crypto::kSealKey);
  const Key key(key_bytes);
  crypto::wipe(key_bytes);
  auto plain = crypto::unseal(key.value, kPurpose, read_own(path("values"), kMaxFile));
  if (!plain)
    throw Error(Kind::Invalid, path("values") +
                                   " was changed, or is not of the key beside it; "
                                   "restore both, or remove it and set the secrets anew");
  const ScopeExit forget([&] { crypto::wipe(*plain); });
  return decode(*plain, path("values"));
}

void Store::write(const StoredMap& entries) const {
  if (!sys::exists(path("key"))) {
    std::array<std::byte, crypto::kSealKey> fresh{};
    crypto::random_bytes(fresh);
    sys::write_file_atomic(path("key"), fresh);
    crypto::wipe(fresh);
  }
  Bytes key_bytes = read_own(path("key"), crypto::kSealKey);
  const Key key(key_bytes);
  crypto::wipe(key_bytes);
  Bytes plain = encode(entries);
  const ScopeExit forget([&] { crypto::wipe(plain); });
  sys::write_file_atomic(path("values"), crypto::seal(key.value, kPurpose, plain));
}

void Store::set(const std::string& name, Stored entry) {
  const sys::Fd held = lock();
  StoredMap entries = read();
  Stored& slot = entries[name];
  wipe(slot.value);
  slot = std::move(entry);
  if (entries.size() > kMaxEntries)
    throw Error(Kind::Exhausted,
                "there are " + std::to_string(kMaxEntries) + " stored secrets already");
  write(entries);
}

bool Store::remove(const std::string& name) {
  if (!sys::exists(path("values"))) return false;
  const sys::Fd held = lock();
  StoredMap entries = read();
  const auto found = entries.find(name);
  if (found == entries.end()) return false;
  wipe(found->second.value);
  entries.erase(found);
  write(entries);
  return true;
}

}
