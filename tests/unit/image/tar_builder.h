#pragma once
// Writes tar archives byte by byte (POSIX ustar with pax headers), so that a test can lie anywhere.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/sys/file.h"

namespace mvm::image {

class TarBuilder {
 public:
  struct Entry {
    std::string path;
    char type = '0';
    std::string content;
    std::string link;
    unsigned mode = 0644;
    unsigned uid = 0;
    unsigned gid = 0;
    uint64_t mtime = 1'000'000'000;
    std::string pax;         // records, made with pax()
    int64_t said_size = -1;  // instead of content.size()
  };

  static std::string pax(const std::string& key, const std::string& value) {
    const std::string body = " " + key + "=" + value + "\n";
    size_t length = body.size() + 1;
    while (std::to_string(length).size() + body.size() != length) ++length;
    return std::to_string(length) + body;
  }

  TarBuilder& add(const Entry& entry) {
    if (!entry.pax.empty()) {
      header("pax", 'x', entry.pax.size(), {}, 0644, 0, 0, 0);
      content(entry.pax);
    }
    header(entry.path, entry.type,
           entry.said_size >= 0 ? static_cast<uint64_t>(entry.said_size) : entry.content.size(),
           entry.link, entry.mode, entry.uid, entry.gid, entry.mtime);
    content(entry.content);
    return *this;
  }
  TarBuilder& file(const std::string& path, const std::string& text) {
    return add({.path = path, .content = text});
  }
  TarBuilder& directory(const std::string& path) {
    return add({.path = path, .type = '5', .mode = 0755});
  }
  TarBuilder& symlink(const std::string& path, const std::string& target) {
    return add({.path = path, .type = '2', .link = target, .mode = 0777});
  }
  TarBuilder& hard_link(const std::string& path, const std::string& target) {
    return add({.path = path, .type = '1', .link = target});
  }

  std::string bytes() const { return out_ + std::string(1024, '\0'); }
  std::string bytes_without_end() const { return out_; }
  std::string save(const std::string& path) const {
    sys::write_file_atomic(path, as_bytes(bytes()));
    return path;
  }

 private:
  static void octal(std::string& block, size_t at, size_t width, uint64_t value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%0*llo", static_cast<int>(width - 1),
                  static_cast<unsigned long long>(value));
    block.replace(at, width - 1, text.data(), width - 1);
  }
  void header(const std::string& path, char type, uint64_t size, const std::string& link,
              unsigned mode, unsigned uid, unsigned gid, uint64_t mtime) {
    std::string block(512, '\0');
    block.replace(0, std::min<size_t>(path.size(), 100), path.substr(0, 100));
    octal(block, 100, 8, mode);
    octal(block, 108, 8, uid);
    octal(block, 116, 8, gid);
    octal(block, 124, 12, size);
    octal(block, 136, 12, mtime);
    block.replace(148, 8, "        ");
    block[156] = type;
    block.replace(157, std::min<size_t>(link.size(), 100), link.substr(0, 100));
    block.replace(257, 8, std::string("ustar\00000", 8));
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    octal(block, 148, 7, sum);
    out_ += block;
  }
  void content(const std::string& text) {
    out_ += text;
    out_.append((512 - text.size() % 512) % 512, '\0');
  }
  std::string out_;
};

}
