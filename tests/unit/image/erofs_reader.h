#pragma once
// A second opinion on the images: reads EROFS as fs/erofs/erofs_fs.h lays it down, sharing nothing
// with the writer. Every rule that the kernel enforces and the writer could break throws.

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace mvm::image {

struct ReadFile {
  uint64_t nid = 0;
  uint16_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t mtime = 0;
  uint32_t mtime_nsec = 0;
  uint32_t links = 0;
  uint64_t size = 0;
  unsigned layout = 0;
  bool extended = false;
  std::string content;  // of a file or link
  std::map<std::string, std::string> xattrs;
};

class ErofsReader {
 public:
  explicit ErofsReader(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(in), {});
    need(get<uint32_t>(1024) == 0xe0f5e1e2, "magic");
    need(get<uint8_t>(1024 + 12) == 12, "block size");
    check_sum();
    build_time_ = get<int64_t>(1024 + 24);
    build_nsec_ = get<uint32_t>(1024 + 32);
    need(uint64_t{get<uint32_t>(1024 + 36)} * 4096 == image_.size(), "size");
    meta_ = uint64_t{get<uint32_t>(1024 + 40)} * 4096;
    const uint64_t root = get<uint16_t>(1024 + 14);
    walk(root, root, "");
    need(inodes_.size() == get<uint64_t>(1024 + 16), "inode count");
    for (const auto& [path_of, file] : files)
      if (!S_ISDIR(file.mode)) need(file.links == inodes_.at(file.nid), "link count of " + path_of);
  }

  std::map<std::string, ReadFile> files;  // by path without the first slash; "" is the root
  const ReadFile& at(const std::string& path) const {
    const auto found = files.find(path);
    if (found == files.end()) throw std::runtime_error("no file " + path);
    return found->second;
  }

 private:
  static void need(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error("image: " + what);
  }
  template <typename T>
  T get(uint64_t offset) const {
    T value{};
    need(offset <= image_.size() && sizeof(T) <= image_.size() - offset, "offset past the end");
    std::memcpy(&value, image_.data() + offset, sizeof(T));
    return value;
  }
  std::string bytes(uint64_t offset, uint64_t length) const {
    need(offset <= image_.size() && length <= image_.size() - offset, "data past the end");
    return image_.substr(offset, length);
  }

  void check_sum() const {
    std::string block = bytes(1024, 3072);
    const auto stored = get<uint32_t>(1024 + 4);
    std::memset(block.data() + 4, 0, 4);
    uint32_t crc = 0xffffffff;
    for (const char c : block) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78U & (0 - (crc & 1U)));
    }
    need(crc == stored, "checksum");
  }

  ReadFile read(uint64_t nid) const {
    const uint64_t at = meta_ + nid * 32;
    ReadFile file;
    file.nid = nid;
    const auto format = get<uint16_t>(at);
    file.extended = (format & 1U) != 0;
    file.layout = (format >> 1U) & 7U;
    const uint64_t icount = get<uint16_t>(at + 2);
    file.mode = get<uint16_t>(at + 4);
    const auto location = get<uint32_t>(at + 16);
    if (file.extended) {
      need(at % 4096 <= 4096 - 64, "an inode across blocks");
      file.size = get<uint64_t>(at + 8);
      file.uid = get<uint32_t>(at + 24);
      file.gid = get<uint32_t>(at + 28);
      file.mtime = get<int64_t>(at + 32);
      file.mtime_nsec = get<uint32_t>(at + 40);
      file.links = get<uint32_t>(at + 44);
    } else {
      file.links = get<uint16_t>(at + 6);
      file.size = get<uint32_t>(at + 8);
      file.uid = get<uint16_t>(at + 24);
      file.gid = get<uint16_t>(at + 26);
      file.mtime = build_time_;
      file.mtime_nsec = build_nsec_;
    }
    uint64_t end = at + (file.extended ? 64U : 32U);
    if (icount > 0) {
      const uint64_t xattr_end = end + 12 + (icount - 1) * 4;
      need(get<uint8_t>(end + 4) == 0, "shared attributes");
      for (uint64_t entry = end + 12; entry < xattr_end;) {
        const auto name_size = get<uint8_t>(entry);
        const auto value_size = get<uint16_t>(entry + 2);
        static const std::map<int, std::string> prefixes{{1, "user."},
                                                         {2, "system.posix_acl_access"},
                                                         {3, "system.posix_acl_default"},
                                                         {6, "security."}};
        file.xattrs[prefixes.at(get<uint8_t>(entry + 1)) + bytes(entry + 4, name_size)] =
            bytes(entry + 4 + name_size, value_size);
        entry += (4U + name_size + value_size + 3U) / 4 * 4;
        need(entry <= xattr_end, "attributes past their area");
      }
      end = xattr_end;
    }
    if (S_ISFIFO(file.mode)) return file;
    if (file.layout == 0) {
      file.content = bytes(file.size > 0 ? uint64_t{location} * 4096 : 0, file.size);
    } else if (file.layout == 2) {
      const uint64_t tail = file.size % 4096;
      if (file.size > tail) file.content = bytes(uint64_t{location} * 4096, file.size - tail);
      need(end % 4096 + tail <= 4096, "inline data across blocks");
      file.content += bytes(end, tail);
    } else if (file.layout == 4) {
      const uint64_t chunk = uint64_t{4096} << (location & 31U);
      for (uint64_t offset = 0; offset < file.size; offset += chunk, end += 4) {
        const uint64_t length = std::min(chunk, file.size - offset);
        const auto block = get<uint32_t>(end);
        file.content +=
            block == 0xffffffff ? std::string(length, '\0') : bytes(uint64_t{block} * 4096, length);
      }
    } else {
      need(false, "layout");
    }
    return file;
  }

  void walk(uint64_t nid, uint64_t parent, const std::string& path) {
    ReadFile file = read(nid);
    const bool seen = inodes_[nid]++ > 0;
    const std::string data = file.content;
    const bool directory = S_ISDIR(file.mode);
    if (directory) file.content.clear();
    files[path] = file;
    if (!directory) return;
    need(!seen, "a directory twice");
    std::string last;
    uint32_t subdirectories = 0;
    bool first = true;
    for (uint64_t block = 0; block < data.size(); block += 4096) {
      const std::string part = data.substr(block, 4096);
      const auto field = [&](size_t offset, auto& value) {
        need(offset + sizeof value <= part.size(), "entry past the block");
        std::memcpy(&value, part.data() + offset, sizeof value);
      };
      uint16_t names = 0;
      field(8, names);
      need(names % 12 == 0 && names > 0, "first name offset");
      for (size_t i = 0; i < names / 12U; ++i) {
        uint64_t child = 0;
        uint16_t start = 0;
        uint16_t end = static_cast<uint16_t>(part.size());
        uint8_t type = 0;
        field(i * 12, child);
        field(i * 12 + 8, start);
        field(i * 12 + 10, type);
        if (i + 1 < names / 12U) field((i + 1) * 12 + 8, end);
        need(start < end && end <= part.size(), "name offsets");
        std::string name = part.substr(start, end - start);
        name.resize(std::strlen(name.c_str()));
        need(first || last < name, "order of names: " + name);
        first = false;
        last = name;
        if (name == "." || name == "..") {
          need(child == (name == "." ? nid : parent), "where " + name + " points");
          continue;
        }
        const uint16_t mode = read(child).mode;
        need(type == (S_ISREG(mode) ? 1 : S_ISDIR(mode) ? 2 : S_ISFIFO(mode) ? 5 : 7), "type");
        if (S_ISDIR(mode)) ++subdirectories;
        walk(child, nid, path.empty() ? name : path + "/" + name);
      }
    }
    need(file.links == 2 + subdirectories, "links of directory " + path);
  }

  std::string image_;
  uint64_t meta_ = 0;
  int64_t build_time_ = 0;
  uint32_t build_nsec_ = 0;
  std::map<uint64_t, uint32_t> inodes_;
};

}
