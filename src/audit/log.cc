#include "mvm/audit/log.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::audit {

static constexpr std::string_view kSuffix = ".jsonl";
static constexpr size_t kDigits = 6;
static constexpr uint64_t kMaxFiles = 999'999;

std::string file_name(uint64_t number) {
  std::string digits = std::to_string(number);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return digits + std::string(kSuffix);
}

std::vector<uint64_t> file_numbers(const std::string& directory) {
  std::vector<uint64_t> numbers;
  if (!sys::exists(directory)) return numbers;
  for (const std::string& name : sys::list_directory(directory)) {
    if (!name.ends_with(kSuffix)) continue;
    const auto number = parse_u64(std::string_view(name).substr(0, name.size() - kSuffix.size()));
    if (number && *number != 0 && file_name(*number) == name) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

namespace {

struct LastRecord {
  Head head;
  bool closed = false;
  uint64_t end = 0;  // offset behind its line feed
};

// The last line of `text` that is whole and a record. `whole`: the text begins with a line.
std::optional<LastRecord> last_record_in(std::string_view text, bool whole) {
  size_t end = text.rfind('\n');
  while (end != text.npos) {
    const size_t before = end == 0 ? text.npos : text.rfind('\n', end - 1);
    if (before == text.npos && !whole) return std::nullopt;
    const size_t begin = before == text.npos ? 0 : before + 1;
    const auto candidate = text.substr(begin, end - begin);
    if (const auto line = parse(candidate))
      return LastRecord{{line->seq, hash_of(candidate)}, line->kind == "close", end + 1};
    end = before;
  }
  return std::nullopt;
}

std::optional<LastRecord> last_record_of(int fd) {
  const uint64_t size = sys::file_size(fd);
  for (uint64_t window = 4 * kMaxLine;; window *= 4) {
    const uint64_t begin = size > window ? size - window : 0;
    Bytes bytes(size - begin);
    if (!sys::pread_exact(fd, bytes, begin)) return std::nullopt;
    if (auto found = last_record_in(as_text(bytes), begin == 0)) {
      found->end += begin;
      return found;
    }
    if (begin == 0) return std::nullopt;
  }
}

void hash_from(int fd, uint64_t offset, crypto::Sha256& hash, uint64_t& bytes) {
  Bytes buffer(64 * 1024);
  while (const size_t got = sys::pread_some(fd, buffer, offset)) {
    hash.update(ByteView(buffer).first(got));
    offset += got;
    bytes += got;
  }
}

}

End find_end(const std::string& directory) {
  End end;
  const auto numbers = file_numbers(directory);
  if (numbers.empty()) return end;
  end.file = numbers.back();
  // Back to the last file with a record: a writer may have been killed between making a file and
  // writing to it.
  std::vector<sys::Fd> files;
  std::optional<LastRecord> last;
  for (auto number = numbers.rbegin(); number != numbers.rend() && !last; ++number) {
    files.push_back(sys::open_own_file(directory + "/" + file_name(*number), O_RDONLY));
    last = last_record_of(files.back().get());
  }
  if (last) end.head = last->head;
  crypto::Sha256 torn;
  for (auto file = files.rbegin(); file != files.rend(); ++file)
    hash_from(file->get(), file == files.rbegin() && last ? last->end : 0, torn, end.torn.bytes);
  if (end.torn.bytes != 0) end.torn.hash = torn.finish();
  end.closed = last && last->closed && end.torn.bytes == 0;
  return end;
}

Session open_log(const std::string& directory, const LogId& log,
                 const crypto::SigningKey& authority, crypto::SigningKey key) {
  return while_doing("opening the audit log " + directory, [&] {
    const End end = find_end(directory);
    const uint64_t number = end.file + 1;
    if (number > kMaxFiles) throw Error(Kind::Exhausted, "it has as many files as it may have");
    uint64_t size = 0;
    for (const uint64_t each : file_numbers(directory))
      size += sys::file_size(sys::open_own_file(directory + "/" + file_name(each), O_RDONLY).get());
    Session session{.directory = sys::open_file(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW),
                    .file = {},
                    .log = log,
                    .number = number,
                    .file_size = 0,
                    .size = size,
                    .next = {end.head.seq + 1, end.head.hash},
                    .key = std::move(key)};
    session.file = sys::open_at(session.directory.get(), file_name(number),
                                O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW);
    FileOpened opened;
    opened.log = log;
    opened.file = number;
    opened.key = session.key.public_key();
    opened.torn = end.torn;
    const std::string line =
        encode(session.next, std::chrono::system_clock::now(), opened, authority) + "\n";
    sys::write_all(session.file.get(), as_bytes(line));
    session.file_size = line.size();
    session.size += line.size();
    session.next = {session.next.seq + 1,
                    hash_of(std::string_view(line).substr(0, line.size() - 1))};
    return session;
  });
}

std::optional<Head> seal(const std::string& directory, const LogId& log,
                         const crypto::SigningKey& authority) {
  const End end = find_end(directory);
  if (end.file == 0) return std::nullopt;
  if (end.closed) {
    const sys::Fd file = sys::open_own_file(directory + "/" + file_name(end.file), O_RDONLY);
    sys::check(sys::uninterrupted([&] { return ::fdatasync(file.get()); }),
               "syncing the audit log " + directory);
    return end.head;
  }
  Session session = open_log(directory, log, authority, crypto::SigningKey::generate());
  const std::string line =
      encode(session.next, std::chrono::system_clock::now(), LogClosed{}, session.key);
  sys::write_all(session.file.get(), as_bytes(line + "\n"));
  sys::check(sys::uninterrupted([&] { return ::fdatasync(session.file.get()); }),
             "syncing the audit log " + directory);
  return Head{session.next.seq, hash_of(line)};
}

crypto::SigningKey authority_key(const std::string& directory) {
  const std::string path = directory + "/key";
  if (!sys::exists(path)) {
    const auto made = crypto::SigningKey::generate();
    auto seed = made.seed();
    sys::write_file_atomic(path, seed, 0600);
    crypto::wipe(seed);
  }
  const sys::Fd file = sys::open_own_file(path, O_RDONLY);
  crypto::SigningKey::Seed seed{};
  if (sys::file_size(file.get()) != seed.size() || !sys::pread_exact(file.get(), seed, 0))
    throw Error(Kind::Invalid, path + " is no key; move it away, and a new one is made");
  crypto::SigningKey key(seed);
  crypto::wipe(seed);
  const std::string pem = crypto::public_key_pem(key.public_key());
  const std::string public_path = path + ".pub";
  constexpr size_t kMaxPem = 4096;
  if (!sys::exists(public_path) || sys::read_own_text_file(public_path, kMaxPem) != pem)
    sys::write_file_atomic(public_path, as_bytes(pem), 0644);
  return key;
}

crypto::PublicKey read_public_key(const std::string& file) {
  constexpr size_t kMaxPem = 4096;
  if (!sys::exists(file))
    throw Error(Kind::NotFound,
                "there is no public key at " + file + "; it is made with the first audit record");
  const auto key = crypto::public_key_from_pem(sys::read_text_file(file, kMaxPem));
  if (!key) throw Error(Kind::Invalid, file + " is no Ed25519 public key in PEM");
  return *key;
}

}
