// multipart (mvm/protect/multipart.h): each part by its own Content-Type, and what its head says,
// file names too.

#include <algorithm>

#include "mvm/protect/multipart.h"

#include "bodies.h"
#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kMaxParts = 1024;

bool same_name(std::string_view name, std::string_view known) {
  return std::ranges::equal(name, known, {}, lower);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Where a file's name ends and what says its kind begins: "2024.report.pdf" is no whole value.
size_t stem(std::string_view name) {
  constexpr size_t kMaxExtension = 6;
  const size_t dot = name.rfind('.');
  return dot == name.npos || name.size() - dot > kMaxExtension ? name.size() : dot;
}

// The parameters of a Content-Disposition, each value by itself; file names without their endings.
std::string rewritten_disposition(ValueScanner& scanner, std::string_view value,
                                  const Replace& replace) {
  std::string out;
  std::string_view label;
  while (!value.empty()) {
    // RFC 8187: filename*=UTF-8'en'…
    const size_t end = std::min(value.find_first_of("\";='"), value.size());
    const std::string_view piece = value.substr(0, end);
    for (const size_t length : {piece.size(), stem(piece)}) {
      const auto changed =
          rewritten_url_text(scanner, label, piece.substr(0, length), UrlText::Header, replace);
      if (!changed && length == piece.size() && stem(piece) < length) continue;
      out += changed ? std::string_view(*changed) : piece.substr(0, length);
      out += piece.substr(length);
      break;
    }
    value.remove_prefix(end);
    if (value.empty()) break;
    if (value.front() == '=') label = trimmed(piece);
    if (value.front() == ';') label = {};
    out += value.front();
    value.remove_prefix(1);
  }
  return out;
}

class MultipartRewriter final : public BodyRewriter, private MultipartReader::Sink {
 public:
  MultipartRewriter(const std::string& boundary, const BodyRules& rules, unsigned depth)
      : rules_(rules), depth_(depth), head_scanner_(rules.detectors), reader_(boundary, *this) {}

  bool feed(std::string_view bytes, std::string& out) override {
    out_ = &out;
    return reader_.feed(bytes);
  }
  bool finish(std::string& out) override {
    if (!reader_.whole()) return false;
    out += reader_.held();
    return true;
  }

 private:
  void framing(std::string_view bytes) override { *out_ += bytes; }

  bool head(std::string_view lines, const PartHead& head) override {
    if (++parts_ > kMaxParts) return false;
    each_field(lines, [&](std::string_view name, std::string_view value) {
      out_->append(name).append(":");
      if (same_name(name, "content-type"))
        *out_ += value;
      else
        *out_ += rewritten_disposition(head_scanner_, value, rules_.replace);
      *out_ += "\r\n";
    });
    inner_ = nullptr;
    if (head.plain)
      inner_ = body_form(head.type) == BodyForm::Text
                   ? unicode_rewriter(head.type.charset,
                                      text_rewriter(rules_.detectors, rules_.replace, head.name))
                   : body_rewriter(head.type, rules_, depth_);
    return inner_ || (rules_.pass_opaque && rules_.pass_opaque());
  }

  bool content(std::string_view bytes) override {
    if (inner_) return inner_->feed(bytes, *out_);
    *out_ += bytes;
    return true;
  }

  bool part_ends() override {
    const bool fine = !inner_ || inner_->finish(*out_);
    inner_.reset();
    return fine;
  }

  BodyRules rules_;
  unsigned depth_;
  ValueScanner head_scanner_;
  MultipartReader reader_;
  std::string* out_ = nullptr;  // while it is fed
  std::unique_ptr<BodyRewriter> inner_;
  size_t parts_ = 0;
};

}

std::unique_ptr<BodyRewriter> multipart_rewriter(const std::string& boundary,
                                                 const BodyRules& rules, unsigned depth) {
  return std::make_unique<MultipartRewriter>(boundary, rules, depth);
}

}
