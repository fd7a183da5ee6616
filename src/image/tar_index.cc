#include "tar_index.h"

#include <algorithm>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::image {
namespace {

constexpr size_t kBlockSize = 512;
constexpr size_t kMaxMembers = 16384;
constexpr size_t kMaxForeign = 16;  // members that no image archive has
constexpr size_t kMaxExtension = size_t{1} << 20;
constexpr int kMaxLinks = 8;

std::string_view field(std::string_view block, size_t at, size_t width) {
  const std::string_view text = block.substr(at, width);
  return text.substr(0, text.find('\0'));
}

// Octal text, or GNU's base 256 when the first bit is set.
std::optional<uint64_t> number(std::string_view text) {
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  uint64_t value = 0;
  if ((byte(text.front()) & 0x80U) != 0) {
    value = byte(text.front()) & 0x7fU;
    for (const char c : text.substr(1)) {
      if (value >> 55U != 0) return std::nullopt;
      value = value << 8U | byte(c);
    }
    return value;
  }
  size_t at = 0;
  while (at < text.size() && text[at] == ' ') ++at;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '7'; ++at) {
    if (value >> 60U != 0) return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(text[at] - '0');
  }
  if (at < text.size() && text[at] != ' ' && text[at] != '\0') return std::nullopt;
  return value;
}

bool has_checksum(std::string_view block) {
  const auto said = number(block.substr(148, 8));
  uint64_t sum = 8 * uint64_t{' '};
  for (size_t at = 0; at < block.size(); ++at)
    if (at < 148 || at >= 156) sum += static_cast<unsigned char>(block[at]);
  return said && *said == sum;
}

std::string path_of(std::string_view block) {
  std::string path(field(block, 0, 100));
  const std::string_view prefix = field(block, 345, 155);
  if (block.substr(257, 5) == "ustar" && block[262] == '\0' && !prefix.empty())
    path = std::string(prefix) + "/" + path;
  return path;
}

// "./a//b/" -> "a/b"; nothing for what leads outside.
std::optional<std::string> normal(std::string_view path) {
  std::string out;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (out.empty()) return std::nullopt;
      const size_t slash = out.rfind('/');
      out.erase(slash == out.npos ? 0 : slash);
      continue;
    }
    out.append(out.empty() ? "" : "/").append(part);
  }
  return out;
}

struct Extended {
  std::string path;
  std::string link;
  std::optional<uint64_t> size;
};

// Records "LENGTH KEY=VALUE\n" (POSIX pax).
void read_pax(std::string_view text, Extended& extended) {
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    const auto length = parse_u64(text.substr(0, blank));
    if (blank == text.npos || !length || *length <= blank + 1 || *length > text.size())
      throw Error(Kind::Invalid, "the archive has a damaged pax header");
    const std::string_view record = text.substr(blank + 1, *length - blank - 2);
    text.remove_prefix(static_cast<size_t>(*length));
    const size_t equals = record.find('=');
    if (equals == record.npos) continue;
    const std::string_view value = record.substr(equals + 1);
    if (record.starts_with("path=")) extended.path = value;
    if (record.starts_with("linkpath=")) extended.link = value;
    if (record.starts_with("size=")) extended.size = parse_u64(value);
  }
}

bool is_hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}

bool TarIndex::is_image_member(std::string_view path) {
  if (path.starts_with("./")) path.remove_prefix(2);
  const std::string_view first = path.substr(0, path.find('/'));
  if (first == "blobs" || first == "." || first.empty()) return true;
  if (path == "oci-layout" || path == "index.json" || path == "manifest.json" ||
      path == "repositories")
    return true;
  // docker save: <id>/layer.tar, <id>.json, <id>.tar
  return is_hex(first.substr(0, first.find('.')));
}

std::optional<std::string> TarIndex::first_name(std::string_view block) {
  if (block.size() < kBlockSize || !has_checksum(block.substr(0, kBlockSize))) return std::nullopt;
  const char type = block[156];
  // Global headers and extensions say nothing; whoever writes image archives needs none.
  if (type != '0' && type != '\0' && type != '5' && type != '2') return std::nullopt;
  return path_of(block.substr(0, kBlockSize));
}

std::optional<TarIndex> TarIndex::read(int fd) {
  const uint64_t end = sys::file_size(fd);
  TarIndex index;
  Extended extended;
  size_t foreign = 0;
  Bytes buffer(kBlockSize);
  for (uint64_t at = 0; at + kBlockSize <= end;) {
    buffer.resize(kBlockSize);
    if (!sys::pread_exact(fd, buffer, at)) break;
    const std::string block(as_text(buffer));
    if (block.find_first_not_of('\0') == block.npos) return index;
    const auto said = number(std::string_view(block).substr(124, 12));
    if (!has_checksum(block) || !said) {
      if (index.members_.empty() || foreign > 0) return std::nullopt;
      throw Error(Kind::Invalid, "the archive is damaged at byte " + std::to_string(at));
    }
    const char type = block[156];
    const bool extension = type == 'x' || type == 'L' || type == 'K' || type == 'g';
    const uint64_t size = extension ? *said : extended.size.value_or(*said);
    const uint64_t start = at + kBlockSize;
    if (size > end - start) {
      if (index.members_.empty() || foreign > 0) return std::nullopt;
      throw Error(Kind::Invalid, "the archive has been cut off");
    }
    at = start + (size + kBlockSize - 1) / kBlockSize * kBlockSize;
    if (extension) {
      if (size > kMaxExtension) throw Error(Kind::Exhausted, "the archive has a huge header");
      buffer.resize(static_cast<size_t>(size));
      if (!sys::pread_exact(fd, buffer, start)) break;
      const std::string_view text = as_text(buffer);
      if (type == 'x') read_pax(text, extended);
      if (type == 'L') extended.path = text.substr(0, text.find('\0'));
      if (type == 'K') extended.link = text.substr(0, text.find('\0'));
      continue;
    }
    const std::string path = extended.path.empty() ? path_of(block) : extended.path;
    std::string link = extended.link.empty() ? std::string(field(block, 157, 100)) : extended.link;
    extended = {};
    if (!is_image_member(path) && ++foreign > kMaxForeign) return std::nullopt;
    if (index.members_.size() >= kMaxMembers) return std::nullopt;
    const auto name = normal(path);
    if (!name) continue;
    if (type == '0' || type == '\0') index.members_[*name] = {start, size, ""};
    if (type == '2' && !link.empty()) index.members_[*name] = {0, 0, std::move(link)};
  }
  if (index.members_.empty() || foreign > 0) return std::nullopt;
  throw Error(Kind::Invalid, "the archive ends without its end mark; it has been cut off");
}

const TarIndex::Member* TarIndex::find(std::string_view path) const {
  auto name = normal(path);
  for (int hops = 0; name && hops < kMaxLinks; ++hops) {
    const auto found = members_.find(*name);
    if (found == members_.end()) return nullptr;
    if (found->second.link.empty()) return &found->second;
    const size_t slash = name->rfind('/');
    const std::string folder = slash == name->npos ? "" : name->substr(0, slash);
    name = normal(folder + "/" + found->second.link);
  }
  return nullptr;
}

}
