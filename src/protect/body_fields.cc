// application/x-www-form-urlencoded: "name=value&name=value", percent-encoded (URL standard §5).

#include "bodies.h"

namespace mvm::protect {
namespace {

class FieldsRewriter final : public BodyRewriter {
 public:
  explicit FieldsRewriter(const BodyRules& rules)
      : scanner_(rules.detectors), replace_(rules.replace), max_held_(rules.max_held) {}

  bool feed(std::string_view bytes, std::string& out) override {
    while (!bytes.empty()) {
      const size_t end = bytes.find('&');
      pair_ += bytes.substr(0, end);
      if (pair_.size() > max_held_) return false;
      if (end == bytes.npos) return true;
      flush(out);
      out += '&';
      bytes.remove_prefix(end + 1);
    }
    return true;
  }
  bool finish(std::string& out) override {
    flush(out);
    return true;
  }

 private:
  void flush(std::string& out) {
    const auto changed = rewritten_pairs(scanner_, pair_, replace_);
    out += changed ? *changed : pair_;
    pair_.clear();
  }

  ValueScanner scanner_;
  Replace replace_;
  size_t max_held_;
  std::string pair_;
};

}

std::unique_ptr<BodyRewriter> fields_rewriter(const BodyRules& rules) {
  return std::make_unique<FieldsRewriter>(rules);
}

}
