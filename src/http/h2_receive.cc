// The receiving half of an HTTP/2 session: nghttp2 takes frames and header blocks apart and holds
// them against RFC 9113; here they become events, and requests are held against what a proxy can
// answer for.
//
// What a peer may cost: nghttp2 bounds resets (CVE-2023-44487), CONTINUATIONs of a block, SETTINGS
// entries and answers that wait. Beyond that each frame that moves nothing (PING, SETTINGS,
// PRIORITY, WINDOW_UPDATE, resets, empty DATA, interim answers, unknown types, broken messages) is
// paid for from an allowance that frames with a use fill up again, so that no mixture of them goes
// on for ever.

#include <algorithm>

#include "mvm/http/parser.h"
#include "mvm/http/target.h"

#include "h2_impl.h"

namespace mvm::http {

static constexpr size_t kFieldOverhead = 32;  // RFC 9113 §6.5.2

size_t FrameCutter::next(ByteView input) noexcept {
  size_t used = std::min(left_, input.size());
  left_ -= used;
  if (used != 0) return used;
  while (got_ < header_.size() && used < input.size()) header_[got_++] = input[used++];
  if (got_ < header_.size()) return used;
  got_ = 0;
  Reader in(header_);
  left_ = static_cast<size_t>(in.u8()) << 16;
  left_ |= in.u16be();
  const uint8_t type = in.u8();
  silent_ = type == NGHTTP2_PRIORITY || type >= NGHTTP2_CONTINUATION;
  const size_t payload = std::min(left_, input.size() - used);
  left_ -= payload;
  return used + payload;
}

// ---- accounts

void H2Session::Impl::charge() {
  if (allowance != 0) {
    --allowance;
    return;
  }
  give_up(NGHTTP2_ENHANCE_YOUR_CALM, "too many frames that move nothing");
}

void H2Session::Impl::credit(size_t much) noexcept {
  allowance = static_cast<uint32_t>(std::min<size_t>(limits.idle_frames, allowance + much));
}

void H2Session::Impl::give_up(uint32_t error, std::string_view reason) {
  if (bad_reason.empty()) {
    bad_error = error;
    bad_reason = reason;
  }
  nghttp2_session_terminate_session(session.get(), error);
  over = true;
}

void H2Session::Impl::push(H2EventKind kind, int32_t id, uint32_t error, std::string_view reason) {
  events.push_back({H2Event{kind, id, {}, error, false, reason}, {}, {}});
}

// Resets the stream, and says so to whoever may have heard of it.
void H2Session::Impl::malformed(int32_t id, std::string_view reason) {
  // Never opened, such as one beyond the limit, which nghttp2 refuses by itself.
  if (nghttp2_session_find_stream(session.get(), id) == nullptr) return charge();
  H2Stream& stream = streams[id];
  if (!stream.dropped) {
    push(stream.known ? H2EventKind::Reset : H2EventKind::Malformed, id, NGHTTP2_PROTOCOL_ERROR,
         reason);
    events.back().event.fault = true;
  }
  stream.dropped = true;
  nghttp2_submit_rst_stream(session.get(), NGHTTP2_FLAG_NONE, id, NGHTTP2_PROTOCOL_ERROR);
  charge();
}

// ---- heads

void H2Session::Impl::begin_headers() {
  incoming = {};
  has_host = false;
  host.clear();
  incoming_size = 0;
  incoming_count = 0;
}

void H2Session::Impl::add_header(std::string_view name, std::string_view value, bool sensitive) {
  incoming_size += name.size() + value.size() + kFieldOverhead;
  if (incoming_size > limits.header_list || ++incoming_count > limits.headers) return;
  // That pseudo-header fields come first, once, and where they belong, nghttp2 has seen to.
  if (name == ":method") {
    incoming.method = value;
  } else if (name == ":scheme") {
    incoming.scheme = value;
  } else if (name == ":authority") {
    incoming.authority = value;
  } else if (name == ":path") {
    incoming.path = value;
    incoming.path_sensitive = sensitive;
  } else if (name == ":status") {
    for (const char c : value)
      incoming.status = incoming.status * 10 + static_cast<unsigned>(c - '0');
  } else {
    if (name == "host") {
      has_host = true;
      host = value;
    }
    incoming.headers.push_back({std::string(name), std::string(value), sensitive});
  }
}

// What is wrong with a request whose fields are each well formed; empty when nothing is.
static std::string_view request_fault(const H2Head& head) {
  const auto authority = parse_authority(head.authority);
  if (!authority) return "the authority is missing or malformed";
  if (head.method.size() > kMaxMethod || !is_token(head.method)) return "the method is malformed";
  if (head.method == "CONNECT") return authority->port ? "" : "CONNECT names no port";
  if (head.scheme != "https" && head.scheme != "http") return "the scheme is not http or https";
  if (head.path.size() > kMaxTarget) return "the path is too long";
  if (!is_target(head.path)) return "the path is malformed";
  if (!head.path.starts_with('/') && !(head.path == "*" && head.method == "OPTIONS"))
    return "the path does not begin with a slash";
  return "";
}

void H2Session::Impl::end_request(int32_t id) {
  // RFC 9113 §8.3.1: Host says the same, or stands in for :authority.
  if (has_host && count(incoming.headers, "host") > 1)
    return malformed(id, "the Host field is repeated");
  if (has_host && incoming.authority.empty()) incoming.authority = host;
  if (has_host && !(parse_authority(host) == parse_authority(incoming.authority)))
    return malformed(id, "the Host field and :authority name different hosts");
  if (const std::string_view fault = request_fault(incoming); !fault.empty())
    return malformed(id, fault);
  std::erase_if(incoming.headers, [](const Header& header) { return header.name == "host"; });
  H2Stream& stream = streams[id];
  stream.known = true;
  stream.final_head = true;
  push(H2EventKind::Head, id);
  events.back().head = std::move(incoming);
}

void H2Session::Impl::end_response(int32_t id) {
  if (incoming.status == 101 || incoming.status < 100 || incoming.status > 599)
    return malformed(id, "the status is malformed");
  const bool interim = incoming.status < 200;
  streams[id].final_head = !interim;
  if (interim) charge();
  push(interim ? H2EventKind::Interim : H2EventKind::Head, id);
  events.back().head = std::move(incoming);
}

void H2Session::Impl::end_headers(const nghttp2_frame& frame) {
  const int32_t id = frame.hd.stream_id;
  if (side == H2Side::Client && !streams.contains(id)) return;
  H2Stream& stream = streams[id];
  if (stream.dropped) return;
  if (incoming_size > limits.header_list) return malformed(id, "the header list is too large");
  if (incoming_count > limits.headers) return malformed(id, "there are too many header fields");
  if (stream.final_head) {
    push(H2EventKind::Trailers, id);
    events.back().trailers = std::move(incoming.headers);
  } else if (side == H2Side::Server) {
    end_request(id);
  } else {
    end_response(id);
  }
}

// ---- frames

void H2Session::Impl::end_by_peer(int32_t id) {
  const auto found = streams.find(id);
  if (found == streams.end() || found->second.dropped || found->second.peer_ended) return;
  found->second.peer_ended = true;
  push(H2EventKind::End, id);
  credit(kStreamCredit);
}

void H2Session::Impl::add_data(int32_t id, ByteView data) {
  const auto found = streams.find(id);
  if (found == streams.end() || found->second.dropped) {
    // Nobody will ask for this stream's window, but the connection's has to open again.
    nghttp2_session_consume_connection(session.get(), data.size());
    return;
  }
  push(H2EventKind::Data, id);
  events.back().event.data = data;
}

void H2Session::Impl::frame_received(const nghttp2_frame& frame) {
  const bool ends = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS:
      end_headers(frame);
      if (ends) end_by_peer(frame.hd.stream_id);
      return;
    case NGHTTP2_DATA:
      if (ends)
        end_by_peer(frame.hd.stream_id);
      else if (frame.hd.length == frame.data.padlen)
        charge();
      else
        credit(kDataCredit);
      return;
    case NGHTTP2_PUSH_PROMISE:
      // Our SETTINGS, which come first of all, forbid it.
      return give_up(NGHTTP2_PROTOCOL_ERROR, "the server pushes, unasked");
    case NGHTTP2_GOAWAY:
      push(H2EventKind::GoAway, frame.goaway.last_stream_id, frame.goaway.error_code);
      charge();
      return;
    default:
      charge();
  }
}

// A frame that breaks a stream; nghttp2 resets that. What breaks the connection comes by here too,
// and is told when its GOAWAY is out.
void H2Session::Impl::invalid_frame(const nghttp2_frame& frame) {
  if (frame.hd.type != NGHTTP2_HEADERS && frame.hd.type != NGHTTP2_DATA) return charge();
  if (frame.hd.stream_id != 0) malformed(frame.hd.stream_id, "the message breaks HTTP/2's rules");
}

// By nghttp2 itself, where nobody here asked for it: a body that is not of its Content-Length.
void H2Session::Impl::reset_sent(int32_t id, uint32_t error) {
  const auto found = streams.find(id);
  if (found == streams.end() || !found->second.known || found->second.dropped) return;
  found->second.dropped = true;
  push(H2EventKind::Reset, id, error, "the message breaks HTTP/2's rules");
  events.back().event.fault = true;
  charge();
}

void H2Session::Impl::stream_closed(int32_t id, uint32_t error) {
  const auto found = streams.find(id);
  if (found == streams.end()) return;
  const H2Stream& stream = found->second;
  const bool whole = stream.peer_ended && stream.finished && error == NGHTTP2_NO_ERROR;
  if (stream.known && !stream.dropped && !whole) {
    push(H2EventKind::Reset, id, error, "reset");
    charge();
  }
  // What is not going to be sent any more is as good as gone, for whoever waits for it.
  if (stream.body.size() > stream.offset) note_sent(id, stream.body.size() - stream.offset);
  streams.erase(found);
}

// ---- input

void H2Session::Impl::feed(ByteView& input) {
  const size_t length = cutter.next(input);
  if (cutter.began_silent_frame()) charge();
  // unsigned char may alias anything.
  const auto* bytes = reinterpret_cast<const uint8_t*>(input.data());
  const ssize_t used = nghttp2_session_mem_recv(session.get(), bytes, length);
  input = input.subspan(length);
  if (used >= 0) return;
  // Whatever it was, the peer is told, as far as nghttp2 has not queued that already.
  const bool flooded = used == NGHTTP2_ERR_FLOODED || used == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS ||
                       used == NGHTTP2_ERR_TOO_MANY_SETTINGS;
  give_up(flooded ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR,
          nghttp2_strerror(static_cast<int>(used)));
}

void H2Session::time_passed(uint32_t seconds) noexcept {
  impl_->credit(size_t{seconds} * kCreditASecond);
}

H2Event H2Session::next(ByteView& input) {
  Impl& impl = *impl_;
  while (impl.events.empty() && !input.empty() && !impl.over) impl.feed(input);
  if (!impl.events.empty()) {
    impl.current = std::move(impl.events.front());
    impl.events.pop_front();
    return impl.current.event;
  }
  if (!impl.over) return {};
  input = {};
  if (impl.bad_reason.empty() || impl.bad_told) return {};
  impl.bad_told = true;
  return {H2EventKind::Bad, 0, {}, impl.bad_error, false, impl.bad_reason};
}

}
