#include "mvm/http/parser.h"

#include <algorithm>

#include "mvm/base/checked.h"
#include "mvm/base/expected.h"

namespace mvm::http {

std::string_view fault_text(Fault fault) noexcept {
  switch (fault) {
    case Fault::None:
      return "no fault";
    case Fault::HeadTooLarge:
      return "the header section is too large";
    case Fault::TooManyHeaders:
      return "there are too many header fields";
    case Fault::BareLineEnd:
      return "a line ends in a bare CR or LF";
    case Fault::BadStartLine:
      return "the first line is malformed";
    case Fault::BadMethod:
      return "the method is malformed";
    case Fault::BadTarget:
      return "the request target is malformed";
    case Fault::BadVersion:
      return "the protocol version is not HTTP/1.0 or HTTP/1.1";
    case Fault::BadStatus:
      return "the status code is malformed";
    case Fault::BadHeaderName:
      return "a header field name is malformed";
    case Fault::BadHeaderValue:
      return "a header field value has control characters";
    case Fault::FoldedHeader:
      return "a header field is folded over lines";
    case Fault::BadHost:
      return "the Host field is missing, repeated or malformed";
    case Fault::BadLength:
      return "the Content-Length is malformed";
    case Fault::RepeatedLength:
      return "the Content-Length is repeated";
    case Fault::LengthAndCoding:
      return "both Content-Length and Transfer-Encoding are present";
    case Fault::BadCoding:
      return "the transfer coding is not supported";
    case Fault::BadChunk:
      return "a chunk of the body is malformed";
    case Fault::BodyTooLarge:
      return "the body is too large";
    case Fault::Truncated:
      return "the message ends too early";
  }
  return "";
}

unsigned fault_status(Fault fault) noexcept {
  switch (fault) {
    case Fault::HeadTooLarge:
    case Fault::TooManyHeaders:
      return 431;
    case Fault::BodyTooLarge:
      return 413;
    case Fault::BadVersion:
      return 505;
    case Fault::BadCoding:
      return 501;
    default:
      return 400;
  }
}

// ---- lines
// ----------------------------------------------------------------------------------------

SectionReader::Step SectionReader::take(ByteView& input) noexcept {
  const std::string_view text = as_text(input);
  // Byte by byte, so that the fault found first does not depend on how the input was cut.
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool after_return = !text_.empty() && text_.back() == '\r';
    if (text_.size() == limit_) {
      fault_ = Fault::HeadTooLarge;
      return Step::Bad;
    }
    if ((c == '\n') != after_return) {
      fault_ = Fault::BareLineEnd;
      return Step::Bad;
    }
    text_.push_back(c);
    if (c != '\n') continue;
    if (text_.size() == line_start_ + 2) {
      input = input.subspan(at + 1);
      return Step::Done;
    }
    line_start_ = text_.size();
  }
  input = {};
  return Step::More;
}

void SectionReader::clear() noexcept {
  text_.clear();
  line_start_ = 0;
  fault_ = Fault::None;
}

// The next line of a section, without its line end.
static std::string_view take_line(std::string_view& lines) noexcept {
  const size_t end = lines.find("\r\n");
  const std::string_view line = lines.substr(0, end);
  lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 2);
  return line;
}

static Fault parse_headers(std::string_view lines, Headers& headers) noexcept {
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
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    if (!is_field_value(line)) return Fault::BadHeaderValue;
    headers.push_back({std::string(name), std::string(line)});
  }
  return Fault::None;
}

// RFC 9112 section 6.3, without the leniencies.
static Fault read_framing(const Headers& headers, int minor, Framing& framing) noexcept {
  framing = {};
  const size_t lengths = count(headers, "content-length");
  const size_t codings = count(headers, "transfer-encoding");
  if (lengths != 0 && codings != 0) return Fault::LengthAndCoding;
  if (lengths > 1) return Fault::RepeatedLength;
  if (codings != 0) {
    if (codings > 1 || minor == 0 || !same_name(*find(headers, "transfer-encoding"), "chunked"))
      return Fault::BadCoding;
    framing.kind = BodyKind::Chunked;
  }
  if (lengths != 0) {
    const std::string& text = *find(headers, "content-length");
    if (text.empty()) return Fault::BadLength;
    uint64_t value = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return Fault::BadLength;
      const auto scaled = checked_mul<uint64_t>(value, 10);
      const auto sum =
          scaled ? checked_add<uint64_t>(*scaled, static_cast<uint64_t>(c - '0')) : std::nullopt;
      if (!sum) return Fault::BadLength;
      value = *sum;
    }
    framing = {BodyKind::Length, value};
  }
  return Fault::None;
}

static Fault parse_version(std::string_view text, int& minor) noexcept {
  if (text != "HTTP/1.1" && text != "HTTP/1.0")
    return text.starts_with("HTTP/") ? Fault::BadVersion : Fault::BadStartLine;
  minor = text.back() - '0';
  return Fault::None;
}

// ---- bodies
// ---------------------------------------------------------------------------------------

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

// ---- requests
// -------------------------------------------------------------------------------------

Event RequestParser::bad(Fault fault) noexcept {
  phase_ = Phase::Dead;
  fault_ = fault;
  return {EventKind::Bad, {}, fault};
}

// RFC 9112 section 3.2: one Host field in HTTP/1.1, which must be able to be one.
static bool host_is_valid(const RequestHead& head) noexcept {
  const size_t hosts = count(head.headers, "host");
  if (hosts == 0) return head.minor == 0;
  if (hosts > 1) return false;
  const std::string& host = *find(head.headers, "host");
  return std::all_of(host.begin(), host.end(), [](char c) {
    return c > 0x20 && c < 0x7f && std::string_view("/?#@\\\"<>^`{|}").find(c) == std::string::npos;
  });
}

Fault RequestParser::parse_head(std::string_view lines) noexcept {
  head_ = {};
  std::string_view line = take_line(lines);
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return Fault::BadStartLine;
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (method.size() > kMaxMethod || !is_token(method)) return Fault::BadMethod;
  if (const Fault fault = parse_version(line.substr(last + 1), head_.minor); fault != Fault::None)
    return fault;
  if (target.size() > kMaxTarget || !is_target(target)) return Fault::BadTarget;
  // Origin form, absolute form, or the forms of the two methods that have their own.
  const bool own_form = (method == "OPTIONS" && target == "*") ||
                        (method == "CONNECT" && target.find_first_of("/?@") == std::string::npos);
  const bool general = target.front() == '/' || target.find("://") != std::string_view::npos;
  if (method == "CONNECT" ? !own_form : !own_form && !general) return Fault::BadTarget;
  head_.method = method;
  head_.target = target;
  if (const Fault fault = parse_headers(lines, head_.headers); fault != Fault::None) return fault;
  if (!host_is_valid(head_)) return Fault::BadHost;
  return read_framing(head_.headers, head_.minor, head_.framing);
}

Event RequestParser::next(ByteView& input) noexcept {
  if (phase_ == Phase::Dead) return {EventKind::Bad, {}, fault_};
  if (phase_ == Phase::Body) {
    const Event event = body_.next(input);
    if (event.kind == EventKind::Bad) return bad(event.fault);
    if (event.kind == EventKind::End) phase_ = Phase::Head;
    return event;
  }
  while (true) {
    const auto step = section_.take(input);
    if (step == SectionReader::Step::Bad) return bad(section_.fault());
    if (step == SectionReader::Step::More) return {};
    if (!section_.lines().empty()) break;
    // One empty line before a request is forgiven (RFC 9112 section 2.2).
    if (skipped_blank_) return bad(Fault::BadStartLine);
    skipped_blank_ = true;
    section_.clear();
  }
  skipped_blank_ = false;
  Fault fault = parse_head(section_.lines());
  section_.clear();
  if (fault == Fault::None) fault = body_.begin(head_.framing);
  if (fault != Fault::None) return bad(fault);
  phase_ = Phase::Body;
  return {EventKind::Head, {}, Fault::None};
}

Event RequestParser::end_of_input() noexcept {
  if (phase_ == Phase::Dead) return {EventKind::Bad, {}, fault_};
  if (idle()) return {EventKind::End, {}, Fault::None};
  return bad(Fault::Truncated);
}

// ---- responses
// ------------------------------------------------------------------------------------

Event ResponseParser::bad(Fault fault) noexcept {
  phase_ = Phase::Dead;
  fault_ = fault;
  return {EventKind::Bad, {}, fault};
}

void ResponseParser::expect(std::string_view method) noexcept {
  bodiless_ = method == "HEAD";
  tunnel_ = method == "CONNECT";
}

Fault ResponseParser::parse_head(std::string_view lines) noexcept {
  head_ = {};
  std::string_view line = take_line(lines);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return Fault::BadStartLine;
  if (const Fault fault = parse_version(line.substr(0, space), head_.minor); fault != Fault::None)
    return fault;
  line.remove_prefix(space + 1);
  for (size_t at = 0; at < 3; ++at) {
    if (at >= line.size() || line[at] < '0' || line[at] > '9') return Fault::BadStatus;
    head_.status = head_.status * 10 + static_cast<unsigned>(line[at] - '0');
  }
  // The space is mandatory, the phrase is not; servers leave out both, which is not ambiguous.
  if (head_.status < 100 || head_.status > 599 || (line.size() > 3 && line[3] != ' '))
    return Fault::BadStatus;
  if (!is_field_value(line.substr(3))) return Fault::BadStartLine;
  if (line.size() > 4) head_.reason = line.substr(4);
  if (const Fault fault = parse_headers(lines, head_.headers); fault != Fault::None) return fault;
  if (const Fault fault = read_framing(head_.headers, head_.minor, head_.framing);
      fault != Fault::None)
    return fault;
  const bool no_body = bodiless_ || head_.status < 200 || head_.status == 204 ||
                       head_.status == 304 || (tunnel_ && head_.status < 300);
  if (no_body) {
    head_.framing = {};
  } else if (head_.framing.kind == BodyKind::None) {
    head_.framing.kind = BodyKind::UntilClose;
  }
  return Fault::None;
}

Event ResponseParser::next(ByteView& input) noexcept {
  if (phase_ == Phase::Dead) return {EventKind::Bad, {}, fault_};
  if (phase_ == Phase::Body) {
    const Event event = body_.next(input);
    if (event.kind == EventKind::Bad) return bad(event.fault);
    if (event.kind == EventKind::End) phase_ = Phase::Head;
    return event;
  }
  const auto step = section_.take(input);
  if (step == SectionReader::Step::Bad) return bad(section_.fault());
  if (step == SectionReader::Step::More) return {};
  if (section_.lines().empty()) return bad(Fault::BadStartLine);
  Fault fault = parse_head(section_.lines());
  section_.clear();
  if (fault == Fault::None) fault = body_.begin(head_.framing);
  if (fault != Fault::None) return bad(fault);
  // 101 is the last HTTP on its connection, so it is a final response (RFC 9110 section 15.2.2).
  if (head_.status < 200 && head_.status != 101) return {EventKind::Interim, {}, Fault::None};
  phase_ = Phase::Body;
  return {EventKind::Head, {}, Fault::None};
}

Event ResponseParser::end_of_input() noexcept {
  if (phase_ == Phase::Dead) return {EventKind::Bad, {}, fault_};
  if (idle()) return {EventKind::End, {}, Fault::None};
  if (phase_ == Phase::Body && body_.ends_at_close()) {
    phase_ = Phase::Head;
    return {EventKind::End, {}, Fault::None};
  }
  return bad(Fault::Truncated);
}

}
