#pragma once
// What looks into, and may change, one inspected request and its answer as they pass the proxy:
// secrets, personal data, metering. Whoever makes the proxy brings filters; the proxy knows only
// this page.
//
//   guest ──▶ request ──▶ first filter ──▶ … ──▶ last filter ──▶ upstream
//   guest ◀── first filter ◀── … ◀── last filter ◀── response ◀── upstream
//
// HTTP/1.1 and HTTP/2 look the same to a filter: a RequestHead's target is in origin form, its host
// is the Exchange's. Framing (Content-Length, Transfer-Encoding) is the proxy's business: where a
// filter rewrites a body, the proxy frames it anew. Bodies come in pieces of any size, at most
// kMaxPiece at a time; what a filter holds back of them has to be bounded by itself.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/http/message.h"
#include "mvm/http/refusal.h"
#include "mvm/policy/reason.h"

namespace mvm::egress {

// One request and its answer.
struct Exchange {
  uint64_t flow = 0;   // of the connection, as in Event::flow
  uint64_t index = 0;  // of the exchange in its flow, from 0
  std::string host;    // the name that was admitted, or the address as text
  uint16_t port = 0;
  bool tls = false;
};

// What a filter wants of the body that follows a head.
enum class BodyUse : uint8_t {
  Ignore,   // not given to this filter
  Watch,    // given when it has passed, to a filter that refuses nothing by it
  Read,     // given; what the filter appends to `out` is not looked at
  Rewrite,  // given, and replaced by what the filter appends to `out`
};

// Instead of going on. Before anything has left for upstream (request_head(), and bodies that the
// proxy collects first) the client gets the refusal as its answer; later the upstream connection is
// given up, and the client gets the answer if none has begun, else a reset.
struct FilterRefusal {
  http::Refusal answer;
  policy::Reason reason = policy::Reason::PolicyDenied;
  std::string rule;    // for the event; never a value
  std::string detail;  // likewise
};
using FilterVerdict = std::optional<FilterRefusal>;  // nothing: go on

class ExchangeFilter {
 public:
  static constexpr size_t kMaxPiece = 64 * 1024;

  virtual ~ExchangeFilter() = default;

  // Once, when the policy has admitted the request. `head.framing` says whether a body follows.
  virtual FilterVerdict request_head(http::RequestHead& head, BodyUse& body) = 0;
  // `last`: nothing follows; `in` may be empty then. Held-back bytes have to be given out.
  virtual FilterVerdict request_body(ByteView in, bool last, Bytes& out) {
    static_cast<void>(in), static_cast<void>(last), static_cast<void>(out);
    return {};
  }
  // The fields behind a chunked body or an HTTP/2 stream's, when there are some; after the body's
  // last piece, whatever was wanted of that. Those that no trailer may be are left out before.
  virtual FilterVerdict request_trailers(http::Headers& trailers) {
    static_cast<void>(trailers);
    return {};
  }
  // The request, all of it, is with the kernel: what only its answer needs can be made ready while
  // the server works at it. Not called where the answer came first, or somebody went away.
  virtual void request_left() noexcept {}
  // A 1xx response that is passed on before the real one; not 101.
  virtual FilterVerdict interim_head(http::ResponseHead& head) {
    static_cast<void>(head);
    return {};
  }
  // The response's head, or that of a 101, which ends what a filter sees.
  virtual FilterVerdict response_head(http::ResponseHead& head, BodyUse& body) = 0;
  virtual FilterVerdict response_body(ByteView in, bool last, Bytes& out) {
    static_cast<void>(in), static_cast<void>(last), static_cast<void>(out);
    return {};
  }
  virtual FilterVerdict response_trailers(http::Headers& trailers) {
    static_cast<void>(trailers);
    return {};
  }
  // Once, last. `whole`: request and response passed to their ends; otherwise somebody went away,
  // or was refused, in the middle, maybe before there was a response.
  virtual void ended(bool whole) noexcept { static_cast<void>(whole); }
};

// Makes the filters of one kind. Called on the loop's thread; outlives the proxy.
class FilterSource {
 public:
  virtual ~FilterSource() = default;
  // Nothing where this kind has no business with such an exchange.
  virtual std::unique_ptr<ExchangeFilter> begin(const Exchange& exchange) = 0;
  // The rule of what is in a name that the guest asks for and may not leave: whoever serves the
  // name's zone reads it. Nothing: it may be looked up.
  virtual std::optional<std::string> rule_of_name(const std::string& name) const {
    static_cast<void>(name);
    return std::nullopt;
  }
};

}
