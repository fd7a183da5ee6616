#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace mvm::build {

// The end of what a hostile program prints, however much that is.
class Tail {
 public:
  explicit Tail(size_t limit) : limit_(limit) {}
  void add(std::string_view text) {
    text_.append(text.substr(text.size() - std::min(text.size(), limit_)));
    if (text_.size() > 2 * limit_) text_.erase(0, text_.size() - limit_);
  }
  std::string_view text() const {
    return std::string_view(text_).substr(text_.size() - std::min(text_.size(), limit_));
  }

 private:
  size_t limit_;
  std::string text_;
};

}
