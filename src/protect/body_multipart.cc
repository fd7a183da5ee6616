// multipart (RFC 2046 §5.1, RFC 7578): each part by its own Content-Type, and what its head says,
// file names too. Strict, because parsers of it differ: what stands before the first delimiter and
// behind the last, and lines that only begin like a delimiter, are not decoded.
//
// Held back: a head of kMaxHead bytes, or as many bytes as a delimiter has.

#include <algorithm>

#include "bodies.h"
#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kMaxHead = size_t{16} * 1024;
constexpr size_t kMaxParts = 1024;
constexpr size_t kMaxPadding = 64;  // behind a boundary, before its line's end
constexpr std::string_view kLineEnd = "\r\n";

bool same_name(std::string_view name, std::string_view known) {
  return std::ranges::equal(name, known, {}, lower);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// name="…" of a Content-Disposition: what the part is called.
std::string field_name(std::string_view disposition) {
  constexpr size_t kMaxLabel = 64;
  constexpr std::string_view kName = "name=\"";
  for (size_t at = disposition.find(kName); at != disposition.npos;
       at = disposition.find(kName, at + 1)) {
    if (at > 0 && is(disposition[at - 1], kAlnum)) continue;  // filename=
    const std::string_view rest = disposition.substr(at + kName.size());
    return std::string(rest.substr(0, std::min(rest.find('"'), kMaxLabel)));
  }
  return "";
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

class MultipartRewriter final : public BodyRewriter {
 public:
  MultipartRewriter(const std::string& boundary, const BodyRules& rules, unsigned depth)
      : rules_(rules),
        depth_(depth),
        head_scanner_(rules.detectors),
        delimiter_("\r\n--" + boundary) {}

  bool feed(std::string_view bytes, std::string& out) override {
    held_ += bytes;
    while (true) {
      switch (step(out)) {
        case Step::Again:
          break;
        case Step::More:
          return true;
        case Step::Bad:
          return false;
      }
    }
  }
  bool finish(std::string& out) override {
    if (where_ != Where::Behind) return false;
    out += held_;
    return true;
  }

 private:
  enum class Where : uint8_t { Delimiter, Head, Part, Behind };
  enum class Step : uint8_t { Again, More, Bad };

  Step step(std::string& out) {
    switch (where_) {
      case Where::Delimiter:
        return delimiter(out);
      case Where::Head:
        return head(out);
      case Where::Part:
        return part(out);
      case Where::Behind:
        return held_.size() <= kLineEnd.size() && kLineEnd.starts_with(held_) ? Step::More
                                                                              : Step::Bad;
    }
    return Step::Bad;
  }

  // A delimiter's line, without the line's end in front of it; the first one begins the body.
  Step delimiter(std::string& out) {
    const std::string_view expected = std::string_view(delimiter_).substr(kLineEnd.size());
    if (held_.size() < expected.size()) return expected.starts_with(held_) ? Step::More : Step::Bad;
    if (!held_.starts_with(expected)) return Step::Bad;
    std::string_view behind = std::string_view(held_).substr(expected.size());
    if (behind.empty() || behind == "-") return Step::More;
    const bool last = behind.starts_with("--");
    if (last) {
      behind.remove_prefix(2);
    } else {
      const size_t padding = std::min(behind.find_first_not_of(" \t"), behind.size());
      if (padding > kMaxPadding) return Step::Bad;
      behind.remove_prefix(padding);
      if (behind.size() < kLineEnd.size())
        return kLineEnd.starts_with(behind) ? Step::More : Step::Bad;
      if (!behind.starts_with(kLineEnd) || ++parts_ > kMaxParts) return Step::Bad;
      behind.remove_prefix(kLineEnd.size());
    }
    const size_t end = held_.size() - behind.size();
    out.append(held_, 0, end);
    held_.erase(0, end);
    where_ = last ? Where::Behind : Where::Head;
    return Step::Again;
  }

  Step head(std::string& out) {
    // Up to the empty line, which may come at once.
    size_t end = 0;
    if (held_.size() < kLineEnd.size()) return Step::More;
    if (!held_.starts_with(kLineEnd)) {
      end = held_.find("\r\n\r\n");
      if (end == std::string::npos) return held_.size() > kMaxHead ? Step::Bad : Step::More;
      end += kLineEnd.size();
    }
    if (end > kMaxHead) return Step::Bad;
    MediaType type{.type = "text/plain", .charset = {}, .boundary = {}};
    std::string label;
    bool plain = true;  // as it is, not in a transfer encoding
    for (size_t at = 0; at < end;) {
      const size_t line_end = held_.find(kLineEnd, at);
      const std::string_view line = std::string_view(held_).substr(at, line_end - at);
      at = line_end + kLineEnd.size();
      const size_t colon = line.find(':');
      // Folded lines are read one way by some and another by others.
      if (colon == line.npos || line.starts_with(' ') || line.starts_with('\t')) return Step::Bad;
      const std::string_view name = line.substr(0, colon);
      const std::string_view value = line.substr(colon + 1);
      if (same_name(name, "content-type")) {
        const auto read = parse_media_type(value);
        if (!read) return Step::Bad;
        type = *read;
      } else if (same_name(name, "content-transfer-encoding")) {
        plain = same_name(trimmed(value), "binary") || same_name(trimmed(value), "8bit") ||
                same_name(trimmed(value), "7bit");
      } else if (same_name(name, "content-disposition")) {
        label = field_name(value);
      }
      out.append(name).append(":");
      if (same_name(name, "content-type"))
        out += value;
      else
        out += rewritten_disposition(head_scanner_, value, rules_.replace);
      out += kLineEnd;
    }
    out += kLineEnd;
    // The empty line stays: its end may be the one in front of the next delimiter.
    held_.erase(0, end);
    given_ = kLineEnd.size();
    inner_ = nullptr;
    if (plain)
      inner_ = body_form(type) == BodyForm::Text
                   ? unicode_rewriter(type.charset,
                                      text_rewriter(rules_.detectors, rules_.replace, label))
                   : body_rewriter(type, rules_, depth_);
    if (!inner_ && (!rules_.pass_opaque || !rules_.pass_opaque())) return Step::Bad;
    where_ = Where::Part;
    return Step::Again;
  }

  Step part(std::string& out) {
    const size_t at = held_.find(delimiter_);
    if (at == std::string::npos) {
      const size_t keep = std::min(held_.size(), delimiter_.size() - 1);
      return give(held_.size() - keep, out) ? Step::More : Step::Bad;
    }
    if (!give(at, out) || (inner_ && !inner_->finish(out))) return Step::Bad;
    inner_.reset();
    if (given_ == 0) out += kLineEnd;
    held_.erase(0, kLineEnd.size());
    where_ = Where::Delimiter;
    return Step::Again;
  }

  bool give(size_t until, std::string& out) {
    const size_t skip = std::min(given_, until);
    const std::string_view bytes = std::string_view(held_).substr(skip, until - skip);
    const bool fine = !inner_ || bytes.empty() || inner_->feed(bytes, out);
    if (!inner_) out += bytes;
    held_.erase(0, until);
    given_ -= skip;
    return fine;
  }

  BodyRules rules_;
  unsigned depth_;
  ValueScanner head_scanner_;
  std::string delimiter_;
  std::string held_;
  std::unique_ptr<BodyRewriter> inner_;
  Where where_ = Where::Delimiter;
  size_t given_ = 0;  // of what is held: the empty line behind a head
  size_t parts_ = 0;
};

}

std::unique_ptr<BodyRewriter> multipart_rewriter(const std::string& boundary,
                                                 const BodyRules& rules, unsigned depth) {
  return std::make_unique<MultipartRewriter>(boundary, rules, depth);
}

}
