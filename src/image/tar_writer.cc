#include "tar_writer.h"

#include <array>
#include <cstdio>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::image {

static constexpr size_t kBlock = 512;
static constexpr size_t kNameField = 100;
static constexpr uint64_t kMaxId = 07777777;          // of 7 octal digits
static constexpr uint64_t kMaxNumber = 077777777777;  // of 11

struct TarWriter::Header {
  char type = '0';
  std::string path;
  std::string target;
  Attributes attributes;
  uint64_t size = 0;
  std::vector<std::pair<std::string, std::string>> records;  // of pax, besides its own
};

namespace {

// "LENGTH KEY=VALUE\n", the length being that of all of it.
std::string pax_record(const std::string& key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (length < rest + std::to_string(length).size()) ++length;
  return std::to_string(length) + " " + key + "=" + std::string(value) + "\n";
}

void put_octal(std::span<char> field, uint64_t value) {
  field.back() = '\0';
  for (size_t i = field.size() - 1; i-- > 0; value >>= 3U)
    field[i] = static_cast<char>('0' + (value & 7U));
}

void put_text(std::span<char> field, std::string_view text) {
  text.copy(field.data(), field.size());
}

// Nanoseconds are ahead of the second, also before 1970.
std::string time_text(int64_t seconds, uint32_t nanoseconds) {
  if (nanoseconds == 0) return std::to_string(seconds);
  const bool before = seconds < 0;
  if (before) {
    ++seconds;
    nanoseconds = 1'000'000'000 - nanoseconds;
  }
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%09u", nanoseconds);
  return (before && seconds == 0 ? "-" : "") + std::to_string(seconds) + fraction.data();
}

bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

}

void TarWriter::put_block(const Header& header) {
  std::array<char, kBlock> block{};
  const std::span all(block);
  const Attributes& attributes = header.attributes;
  // What does not fit is in the pax records, which come before it.
  const auto fitting = [](uint64_t value, uint64_t most) { return value <= most ? value : 0; };
  put_text(all.first(kNameField), header.path);
  put_octal(all.subspan(100, 8), attributes.permissions);
  put_octal(all.subspan(108, 8), fitting(attributes.uid, kMaxId));
  put_octal(all.subspan(116, 8), fitting(attributes.gid, kMaxId));
  put_octal(all.subspan(124, 12), fitting(header.size, kMaxNumber));
  put_octal(all.subspan(136, 12), fitting(static_cast<uint64_t>(attributes.mtime), kMaxNumber));
  block.at(156) = header.type;
  put_text(all.subspan(157, kNameField), header.target);
  put_text(all.subspan(257, 8), std::string_view("ustar\00000", 8));
  put_text(all.subspan(148, 8), "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put_octal(all.subspan(148, 7), sum);
  sink_(as_bytes(std::string_view(block.data(), block.size())));
}

void TarWriter::put(Header header) {
  MVM_ASSERT(left_ == 0 && padding_ == 0);
  const Attributes& attributes = header.attributes;
  std::string records;
  const auto record = [&](const std::string& key, std::string_view value) {
    records += pax_record(key, value);
  };
  const auto long_text = [](const std::string& text) {
    return text.size() > kNameField || !is_ascii(text);
  };
  // Names are bytes: those that are no UTF-8 stand there all the same, and readers take them.
  if (long_text(header.path)) record("path", header.path);
  if (long_text(header.target)) record("linkpath", header.target);
  if (header.size > kMaxNumber) record("size", std::to_string(header.size));
  if (attributes.uid > kMaxId) record("uid", std::to_string(attributes.uid));
  if (attributes.gid > kMaxId) record("gid", std::to_string(attributes.gid));
  if (attributes.mtime < 0 || static_cast<uint64_t>(attributes.mtime) > kMaxNumber ||
      attributes.mtime_nsec != 0)
    record("mtime", time_text(attributes.mtime, attributes.mtime_nsec));
  for (const auto& [key, value] : header.records) record(key, value);
  for (const auto& [name, value] : attributes.xattrs.list())
    record("SCHILY.xattr." + name, as_text(value));
  if (!records.empty()) {
    Header pax;
    pax.type = 'x';
    pax.path = "PaxHeaders/entry";
    pax.attributes.permissions = 0644;
    pax.size = records.size();
    put_block(pax);
    sink_(as_bytes(records));
    pad(records.size());
  }
  if (long_text(header.path)) header.path = "entry";
  if (long_text(header.target)) header.target = "target";
  put_block(header);
}

void TarWriter::pad(uint64_t length) {
  static constexpr std::array<std::byte, kBlock> kZeros{};
  if (length % kBlock != 0) sink_(ByteView(kZeros).first(kBlock - length % kBlock));
}

void TarWriter::directory(const std::string& path, const Attributes& attributes) {
  put({'5', path, "", attributes, 0, {}});
}

void TarWriter::symlink(const std::string& path, const std::string& target,
                        const Attributes& attributes) {
  put({'2', path, target, attributes, 0, {}});
}

void TarWriter::hard_link(const std::string& path, const std::string& target,
                          const Attributes& attributes) {
  put({'1', path, target, attributes, 0, {}});
}

void TarWriter::fifo(const std::string& path, const Attributes& attributes) {
  put({'6', path, "", attributes, 0, {}});
}

void TarWriter::begin_file(const std::string& path, uint64_t size, const Attributes& attributes) {
  put({'0', path, "", attributes, size, {}});
  left_ = padding_ = size;
}

void TarWriter::begin_sparse_file(const std::string& path, uint64_t size,
                                  std::span<const Part> parts, const Attributes& attributes) {
  uint64_t length = 0;
  std::string map;
  size_t count = 0;
  const auto add = [&](uint64_t offset, uint64_t part) {
    map += std::to_string(offset) + "\n" + std::to_string(part) + "\n";
    length += part;
    ++count;
  };
  for (const auto& [offset, part] : parts) add(offset, part);
  // An empty part at the end says how far the last hole goes.
  if (parts.empty() || parts.back().first + parts.back().second < size) add(size, 0);
  map.insert(0, std::to_string(count) + "\n");
  map.resize((map.size() + kBlock - 1) / kBlock * kBlock);
  put({'0',
       path,
       "",
       attributes,
       map.size() + length,
       {{"GNU.sparse.major", "1"},
        {"GNU.sparse.minor", "0"},
        {"GNU.sparse.name", path},
        {"GNU.sparse.realsize", std::to_string(size)}}});
  sink_(as_bytes(map));
  left_ = padding_ = length;
}

void TarWriter::data(ByteView bytes) {
  MVM_ASSERT(bytes.size() <= left_);
  sink_(bytes);
  left_ -= bytes.size();
}

void TarWriter::end_file() {
  MVM_ASSERT(left_ == 0);
  pad(padding_);
  padding_ = 0;
}

void TarWriter::finish() {
  const Bytes zeros(2 * kBlock);
  sink_(zeros);
}

}
