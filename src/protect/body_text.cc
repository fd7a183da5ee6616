// Plain text: as it is, in a stream. Patterns of the user's own look at whole lines, before the
// detectors do, which find no token.

#include <algorithm>

#include "bodies.h"

namespace mvm::protect {
namespace {

class TextRewriter final : public BodyRewriter, private ScanSink {
 public:
  static constexpr size_t kMaxLine = size_t{64} * 1024;  // longer ones are looked at in pieces

  TextRewriter(Detectors detectors, Replace replace, std::string_view label)
      : patterns_(std::move(detectors.patterns)),
        scanner_(detectors.classes),
        replace_(std::move(replace)) {
    if (label.empty()) return;
    const std::string words = std::string(label) + ": ";
    skip_ = words.size();
    std::string none;
    out_ = &none;
    scanner_.feed(words, *this);
  }

  bool feed(std::string_view bytes, std::string& out) override {
    out_ = &out;
    if (!patterns_) {
      scanner_.feed(bytes, *this);
      return true;
    }
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const size_t take =
          std::min(end == bytes.npos ? bytes.size() : end + 1, kMaxLine - line_.size());
      line_ += bytes.substr(0, take);
      bytes.remove_prefix(take);
      if (line_.back() == '\n' || line_.size() == kMaxLine) flush_line();
    }
    return true;
  }
  bool finish(std::string& out) override {
    out_ = &out;
    flush_line();
    scanner_.finish(*this);
    return true;
  }

 private:
  void flush_line() {
    if (line_.empty()) return;
    std::string text;
    size_t done = 0;
    for (const auto& match : patterns_->find(line_)) {
      const auto value = std::string_view(line_).substr(match.offset, match.length);
      const auto put = replace_({PiiClass::Custom, match.offset, match.length, match.name}, value);
      if (!put) continue;
      text.append(line_, done, match.offset - done).append(*put);
      done = match.offset + match.length;
    }
    text.append(line_, done);
    line_.clear();
    scanner_.feed(text, *this);
  }
  void clean(std::string_view bytes) override {
    const size_t label = std::min(skip_, bytes.size());
    skip_ -= label;
    *out_ += bytes.substr(label);
  }
  void found(const Finding& finding, std::string_view value) override {
    if (skip_ > 0) return clean(value);
    const auto put = replace_(finding, value);
    *out_ += put ? std::string_view(*put) : value;
  }

  std::shared_ptr<const PatternSet> patterns_;
  Scanner scanner_;
  Replace replace_;
  std::string line_;  // with patterns alone
  size_t skip_ = 0;   // of the label
  std::string* out_ = nullptr;
};

}

std::unique_ptr<BodyRewriter> text_rewriter(Detectors detectors, Replace replace,
                                            std::string_view label) {
  return std::make_unique<TextRewriter>(std::move(detectors), std::move(replace), label);
}

}
