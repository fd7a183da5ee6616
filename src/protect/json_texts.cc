#include "json_texts.h"

#include <algorithm>
#include <array>

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxTexts = 256;
constexpr size_t kMaxKey = 512;

// Members that tell one of several answers, or parts of one, from another.
bool tells_which(std::string_view name) {
  static constexpr std::array kNames = std::to_array<std::string_view>(
      {"index", "output_index", "content_index", "summary_index", "contentBlockIndex", "item_id"});
  return std::ranges::find(kNames, name) != kNames.end();
}

class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  std::optional<std::vector<JsonText>> walk() {
    if (!value("", 0)) return std::nullopt;
    white();
    if (at_ != text_.size()) return std::nullopt;
    return std::move(texts_);
  }

 private:
  void white() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    white();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool string(std::string_view& inside) {
    if (!take('"')) return false;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    if (at_ >= text_.size()) return false;
    inside = text_.substr(begin, at_ - begin);
    ++at_;
    return true;
  }

  bool value(const std::string& key, size_t depth) {
    white();
    if (at_ == text_.size() || depth > kMaxDepth || key.size() > kMaxKey) return false;
    switch (text_[at_]) {
      case '{':
        return object(key, depth);
      case '[':
        return array(key, depth);
      case '"': {
        std::string_view inside;
        if (!string(inside) || texts_.size() == kMaxTexts) return false;
        texts_.push_back({static_cast<size_t>(inside.data() - text_.data()), inside.size(), key});
        return true;
      }
      default: {
        const size_t begin = at_;
        while (at_ < text_.size() && (is(text_[at_], kAlnum) || text_[at_] == '-' ||
                                      text_[at_] == '+' || text_[at_] == '.'))
          ++at_;
        return at_ > begin;
      }
    }
  }

  bool object(const std::string& key, size_t depth) {
    ++at_;
    if (take('}')) return true;
    const size_t first = texts_.size();
    std::string which;
    do {
      std::string_view name;
      if (!string(name) || !take(':')) return false;
      white();
      const size_t begin = at_;
      const size_t before = texts_.size();
      if (!value(key + "." + std::string(name), depth + 1)) return false;
      if (!tells_which(name)) continue;
      which += "#" + std::string(text_.substr(begin, at_ - begin).substr(0, 64));
      texts_.resize(before);  // itself it continues nothing
    } while (take(','));
    if (!take('}')) return false;
    if (!which.empty())
      for (size_t i = first; i < texts_.size(); ++i) texts_[i].key += which;
    return true;
  }

  bool array(const std::string& key, size_t depth) {
    ++at_;
    if (take(']')) return true;
    size_t index = 0;
    do {
      if (!value(key + "[" + std::to_string(index++) + "]", depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<JsonText> texts_;
};

}

std::optional<std::vector<JsonText>> json_texts(std::string_view document) {
  return Walker(document).walk();
}

}
