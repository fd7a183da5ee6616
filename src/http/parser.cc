#include "mvm/http/parser.h"

#include "mvm/base/checked.h"

#include "section.h"

namespace mvm::http {

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

// ---- requests

Event RequestParser::bad(Fault fault) noexcept {
  phase_ = Phase::Dead;
  fault_ = fault;
  return {EventKind::Bad, {}, fault};
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
  if (target.size() > kMaxTarget) return Fault::TargetTooLong;
  if (!is_target(target)) return Fault::BadTarget;
  head_.method = method;
  head_.target = target;
  if (const Fault fault = parse_headers(lines, head_.headers); fault != Fault::None) return fault;
  switch (read_target(head_, target_)) {
    case TargetFault::None:
      break;
    case TargetFault::BadTarget:
      return Fault::BadTarget;
    case TargetFault::BadHost:
      return Fault::BadHost;
    case TargetFault::HostMismatch:
      return Fault::HostMismatch;
  }
  if (const Fault fault = read_framing(head_.headers, head_.minor, head_.framing);
      fault != Fault::None)
    return fault;
  // What follows CONNECT is the tunnel's, and TRACE sends nothing (RFC 9110 section 9.3.6, 9.3.8).
  if (head_.framing.kind != BodyKind::None && (method == "CONNECT" || method == "TRACE"))
    return Fault::UnexpectedBody;
  return Fault::None;
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
