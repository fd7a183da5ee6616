// The parts of a message between its start line and its end: sections of lines, and bodies.

#include <algorithm>

#include "mvm/http/parser.h"

#include "fields.h"
#include "section.h"

namespace mvm::http {

static SectionReader::Step fail(Fault& to, Fault fault) noexcept {
  to = fault;
  return SectionReader::Step::Bad;
}

// Line ends are judged where they stand and the limit before them, so that the fault found first
// does not depend on how the input was cut.
SectionReader::Step SectionReader::take(ByteView& input) noexcept {
  while (!input.empty()) {
    const std::string_view text = as_text(input).substr(0, limit_ - text_.size());
    if (text.empty()) return fail(fault_, Fault::HeadTooLarge);
    if (text_.ends_with('\r')) {
      if (text.front() != '\n') return fail(fault_, Fault::BareLineEnd);
      text_ += '\n';
      input = input.subspan(1);
      if (text_.size() == line_start_ + 2) return Step::Done;
      line_start_ = text_.size();
      continue;
    }
    const size_t feed = text.find('\n');
    const size_t end = std::min(text.substr(0, feed).find('\r'), text.size());
    if (end == text.size() && feed != std::string_view::npos)
      return fail(fault_, Fault::BareLineEnd);
    // With the CR, when there is one.
    const size_t length = std::min(end + 1, text.size());
    text_ += text.substr(0, length);
    input = input.subspan(length);
  }
  return Step::More;
}

void SectionReader::clear() noexcept {
  text_.clear();
  line_start_ = 0;
  fault_ = Fault::None;
}

// The next line of a section, without its line end.
std::string_view take_line(std::string_view& lines) noexcept {
  const size_t end = lines.find("\r\n");
  const std::string_view line = lines.substr(0, end);
  lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 2);
  return line;
}

Fault parse_headers(std::string_view lines, Headers& headers) noexcept {
  headers.clear();
  while (!lines.empty()) {
    std::string_view line = take_line(lines);
    if (headers.size() == kMaxHeaders) return Fault::TooManyHeaders;
    if (line.front() == ' ' || line.front() == '\t') return Fault::FoldedHeader;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return Fault::BadHeaderName;
    const std::string_view name = line.substr(0, colon);
    line.remove_prefix(colon + 1);
    line = trimmed(line);
    if (!is_field_value(line)) return Fault::BadHeaderValue;
    headers.push_back({std::string(name), std::string(line)});
  }
  return Fault::None;
}

// ---- bodies

Fault BodyReader::begin(Framing framing) noexcept {
  framing_ = framing;
  total_ = 0;
  left_ = framing.length;
  line_.clear();
  section_.clear();
  trailers_.clear();
  phase_ = framing.kind == BodyKind::Chunked ? Phase::Size : Phase::Data;
  if (framing.kind == BodyKind::Length && framing.length > limit_) return Fault::BodyTooLarge;
  return Fault::None;
}

Event BodyReader::data(ByteView& input) noexcept {
  if (input.empty()) return {};
  const size_t length = static_cast<size_t>(std::min<uint64_t>(left_, input.size()));
  const Event event{EventKind::Body, input.first(length), Fault::None};
  input = input.subspan(length);
  left_ -= length;
  return event;
}

Event BodyReader::next(ByteView& input) noexcept {
  switch (framing_.kind) {
    case BodyKind::None:
      return {EventKind::End, {}, Fault::None};
    case BodyKind::Length:
      return left_ == 0 ? Event{EventKind::End, {}, Fault::None} : data(input);
    case BodyKind::Chunked:
      return next_chunked(input);
    case BodyKind::UntilClose:
      break;
  }
  if (input.empty()) return {};
  // All that the limit admits is delivered first, whatever the size of the pieces.
  if (total_ == limit_) return {EventKind::Bad, {}, Fault::BodyTooLarge};
  left_ = std::min<uint64_t>(input.size(), limit_ - total_);
  total_ += left_;
  return data(input);
}

// "1a;name=value\r\n"; extensions are skipped (RFC 9112 section 7.1.1).
Fault BodyReader::size_line(ByteView& input, bool& complete) noexcept {
  const std::string_view text = as_text(input);
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (line_.size() == kMaxChunkLine) return Fault::BadChunk;
    const bool after_return = !line_.empty() && line_.back() == '\r';
    if ((c == '\n') != after_return) return Fault::BadChunk;
    line_.push_back(c);
    if (c != '\n') continue;
    input = input.subspan(at + 1);
    complete = true;
    break;
  }
  if (!complete) {
    input = {};
    return Fault::None;
  }

  size_t digits = 0;
  uint64_t size = 0;
  for (; digits < line_.size(); ++digits) {
    const char c = line_[digits];
    unsigned value = 0;
    if (c >= '0' && c <= '9') {
      value = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = static_cast<unsigned>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      value = static_cast<unsigned>(c - 'A' + 10);
    } else {
      break;
    }
    if (digits == kMaxChunkDigits) return Fault::BadChunk;
    size = size << 4 | value;
  }
  const std::string_view rest = std::string_view(line_).substr(digits, line_.size() - digits - 2);
  if (digits == 0 || (!rest.empty() && rest.front() != ';') || !is_field_value(rest))
    return Fault::BadChunk;
  line_.clear();
  if (size > limit_ - total_) return Fault::BodyTooLarge;
  total_ += size;
  left_ = size;
  return Fault::None;
}

Event BodyReader::next_chunked(ByteView& input) noexcept {
  while (true) {
    switch (phase_) {
      case Phase::Size: {
        bool complete = false;
        if (const Fault fault = size_line(input, complete); fault != Fault::None)
          return {EventKind::Bad, {}, fault};
        if (!complete) return {};
        phase_ = left_ == 0 ? Phase::Trailers : Phase::Data;
        break;
      }
      case Phase::Data: {
        if (left_ != 0) return data(input);
        phase_ = Phase::DataEnd;
        break;
      }
      case Phase::DataEnd: {
        while (!input.empty() && line_.size() < 2) {
          line_.push_back(static_cast<char>(input.front()));
          if (line_ != std::string_view("\r\n").substr(0, line_.size()))
            return {EventKind::Bad, {}, Fault::BadChunk};
          input = input.subspan(1);
        }
        if (line_.size() < 2) return {};
        line_.clear();
        phase_ = Phase::Size;
        break;
      }
      case Phase::Trailers: {
        const auto step = section_.take(input);
        if (step == SectionReader::Step::Bad) return {EventKind::Bad, {}, section_.fault()};
        if (step == SectionReader::Step::More) return {};
        if (const Fault fault = parse_headers(section_.lines(), trailers_); fault != Fault::None)
          return {EventKind::Bad, {}, fault};
        phase_ = Phase::Done;
        break;
      }
      case Phase::Done:
        return {EventKind::End, {}, Fault::None};
    }
  }
}

}
