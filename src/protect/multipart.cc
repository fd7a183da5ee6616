#include "mvm/protect/multipart.h"

#include <algorithm>

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kMaxHead = size_t{16} * 1024;
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

// The end of a parameter, outside of quotes.
size_t parameter_end(std::string_view text) {
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') quoted = !quoted;
    if (quoted && text[at] == '\\') ++at;
    if (!quoted && text[at] == ';') return at;
  }
  return text.size();
}

void read_disposition(std::string_view value, PartHead& head) {
  constexpr size_t kMaxName = 64;
  while (!value.empty()) {
    const size_t end = parameter_end(value);
    const std::string_view parameter = value.substr(0, end);
    value.remove_prefix(std::min(end + 1, value.size()));
    const size_t equals = parameter.find('=');
    if (equals == parameter.npos) continue;
    const std::string_view name = trimmed(parameter.substr(0, equals));
    std::string_view text = trimmed(parameter.substr(equals + 1));
    if (text.starts_with('"')) text.remove_prefix(1);
    if (same_name(name, "filename") || same_name(name, "filename*")) head.file = true;
    if (same_name(name, "name")) head.name = text.substr(0, std::min(text.find('"'), kMaxName));
  }
}

bool is_well_formed(std::string_view lines) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find(kLineEnd, at);
    const std::string_view line = lines.substr(at, end - at);
    at = end + kLineEnd.size();
    // Folded lines are read one way by some and another by others.
    if (line.find(':') == line.npos || line.starts_with(' ') || line.starts_with('\t'))
      return false;
  }
  return true;
}

std::optional<PartHead> parse_head(std::string_view lines) {
  if (!is_well_formed(lines)) return std::nullopt;
  std::optional<PartHead> head(std::in_place);
  each_field(lines, [&](std::string_view name, std::string_view value) {
    if (!head) return;
    if (same_name(name, "content-type")) {
      const auto type = parse_media_type(value);
      if (!type) return head.reset();
      head->type = *type;
    } else if (same_name(name, "content-transfer-encoding")) {
      value = trimmed(value);
      head->plain =
          same_name(value, "binary") || same_name(value, "8bit") || same_name(value, "7bit");
    } else if (same_name(name, "content-disposition")) {
      read_disposition(value, *head);
    }
  });
  return head;
}

}

void each_field(std::string_view lines,
                const std::function<void(std::string_view, std::string_view)>& take) {
  while (!lines.empty()) {
    const size_t end = lines.find(kLineEnd);
    const std::string_view line = lines.substr(0, end);
    const size_t colon = std::min(line.find(':'), line.size());
    take(line.substr(0, colon), line.substr(std::min(colon + 1, line.size())));
    lines.remove_prefix(end == lines.npos ? lines.size() : end + kLineEnd.size());
  }
}

std::optional<std::string> MultipartReader::boundary(const MediaType& type) {
  constexpr size_t kMaxBoundary = 70;
  if (body_form(type) != BodyForm::Multipart || type.boundary.empty() ||
      type.boundary.size() > kMaxBoundary)
    return std::nullopt;
  return type.boundary;
}

bool MultipartReader::feed(std::string_view bytes) {
  held_ += bytes;
  while (true) {
    switch (step()) {
      case Step::Again:
        break;
      case Step::More:
        return true;
      case Step::Bad:
        return false;
    }
  }
}

MultipartReader::Step MultipartReader::step() {
  switch (where_) {
    case Where::Delimiter:
      return delimiter();
    case Where::Head:
      return head();
    case Where::Part:
      return part();
    case Where::Behind:
      return held_.size() <= kLineEnd.size() && kLineEnd.starts_with(held_) ? Step::More
                                                                            : Step::Bad;
  }
  return Step::Bad;
}

// A delimiter's line, without the line's end in front of it; the first one begins the body.
MultipartReader::Step MultipartReader::delimiter() {
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
    if (!behind.starts_with(kLineEnd)) return Step::Bad;
    behind.remove_prefix(kLineEnd.size());
  }
  const size_t end = held_.size() - behind.size();
  sink_.framing(std::string_view(held_).substr(0, end));
  held_.erase(0, end);
  where_ = last ? Where::Behind : Where::Head;
  return Step::Again;
}

MultipartReader::Step MultipartReader::head() {
  // Up to the empty line, which may come at once.
  size_t end = 0;
  if (held_.size() < kLineEnd.size()) return Step::More;
  if (!held_.starts_with(kLineEnd)) {
    end = held_.find("\r\n\r\n");
    if (end == std::string::npos) return held_.size() > kMaxHead ? Step::Bad : Step::More;
    end += kLineEnd.size();
  }
  if (end > kMaxHead) return Step::Bad;
  const std::string_view lines = std::string_view(held_).substr(0, end);
  const auto read = parse_head(lines);
  if (!read || !sink_.head(lines, *read)) return Step::Bad;
  sink_.framing(kLineEnd);
  // The empty line stays: its end may be the one in front of the next delimiter.
  held_.erase(0, end);
  given_ = kLineEnd.size();
  where_ = Where::Part;
  return Step::Again;
}

MultipartReader::Step MultipartReader::part() {
  const size_t at = held_.find(delimiter_);
  if (at == std::string::npos) return give(delimiter_start()) ? Step::More : Step::Bad;
  if (!give(at) || !sink_.part_ends()) return Step::Bad;
  if (given_ == 0) sink_.framing(kLineEnd);
  given_ = 0;
  held_.erase(0, kLineEnd.size());
  where_ = Where::Delimiter;
  return Step::Again;
}

// Where in what is held a delimiter may begin that is not whole.
size_t MultipartReader::delimiter_start() const {
  const std::string_view text = held_;
  size_t at = text.size() - std::min(text.size(), delimiter_.size() - 1);
  while ((at = text.find('\r', at)) != text.npos && !delimiter_.starts_with(text.substr(at))) ++at;
  return std::min(at, text.size());
}

// A part's content up to there.
bool MultipartReader::give(size_t until) {
  const size_t skip = std::min(given_, until);
  const std::string_view bytes = std::string_view(held_).substr(skip, until - skip);
  const bool fine = bytes.empty() || sink_.content(bytes);
  held_.erase(0, until);
  given_ -= skip;
  return fine;
}

}
